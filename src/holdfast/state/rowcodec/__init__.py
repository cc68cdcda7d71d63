"""Rows as bytes: Arrow columns to one bytes object a row, and back, a column at a time.

Key-value stores hold rows; the engine has columns. Format 1, little-endian, no padding:

    head        fixed-width fields that the caller puts in front, in any byte order
    presence    one bit a column, 1 where the row has a value: column 0 is the lowest bit of the
                first byte; unused bits are 1
    slots       for each column, in order
                    number, date, time, decimal, fixed-size binary    its bytes; zeros for null
                    boolean                 1 byte, 0 or 1
                    text, binary            4 bytes: how many bytes; 0 for null
                    list, map               4 bytes: how many elements; 0 for null
                    struct, fixed-size list, null                     nothing
    tails       for each column, in order
                    text, binary            the bytes
                    list                    one block of its elements
                    map                     one block of its keys, one of its items
                    struct                  for each field, one block of 1 value
                    fixed-size list         one block of its elements; of none for null
                    anything else           nothing

A block holds `k` values of one type; what precedes it says how many:

    presence    k bytes, 0 or 1
    slots       k slots as above
    tails       as above, of the k values together: the bytes of all texts, one block of the
                elements of all lists, and so on

So a row of fixed-width columns has a fixed length, and two rows of key columns have the same
bytes exactly if they are the same key: nulls are equal, and what lies under a null is zeros.
Only the struct differs: what lies under a null one is kept, and it is never in a key.
"""

from holdfast.state.rowcodec.codec import FORMAT, RowCodec

__all__ = ["FORMAT", "RowCodec"]
