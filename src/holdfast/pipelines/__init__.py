"""What Holdfast does: replicate tables, plan and apply, look after what it remembers."""
