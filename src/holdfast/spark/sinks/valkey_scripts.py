"""What runs inside Valkey, each script alone and at once: Lua, as every version of it takes.

The last token is kept as `<generation>/<epoch>/<batch>`, that of a roll-back without the batch. A
script answers with a list whose first word says what happened: `taken`; `met` and the last token,
if that is not before the one that came, or none at all; `lost`; or `wrong type` with the key and
what it is. Whether a token that was met is the same batch is not decided here: a script that met
one has changed nothing.
"""

from __future__ import annotations

_MEET_TOKEN = """
local token, generation, epoch = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local last = redis.call('GET', token)
if last then
  local g, e, rest = string.match(last, '^(%d+)/(-?%d+)(.*)$')
  if not g or not (rest == '' or string.sub(rest, 1, 1) == '/') then return {'met', last} end
  g, e = tonumber(g), tonumber(e)
  if met(g, e) then return {'met', last} end
end
"""

# A batch is new if it is of a later epoch, and of no older generation.
_MOVE_TOKEN = (
    """
local function met(g, e) return g > tonumber(ARGV[1]) or e >= tonumber(ARGV[2]) end
"""
    + _MEET_TOKEN
)

# A roll-back is new if its generation is.
_ROLL_TOKEN_BACK = (
    """
local function met(g, e) return g >= tonumber(ARGV[1]) end
"""
    + _MEET_TOKEN
)

APPLY = (
    _MOVE_TOKEN
    + """
local staged, mode, target, count = KEYS[2], ARGV[4], ARGV[5], tonumber(ARGV[6])
if redis.call('LLEN', staged) ~= count then return {'lost', staged} end

local function each_row(visit)
  for first = 0, count - 1, 1000 do
    for _, text in ipairs(redis.call('LRANGE', staged, first, first + 999)) do
      local refused = visit(cjson.decode(text))
      if refused then return refused end
    end
  end
end

local function of_type(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= wanted then return {'wrong type', key, found} end
end

local function write_hash(row)
  local set, gone = {}, {}
  for i = 2, #row, 2 do
    if row[i + 1] == cjson.null then
      gone[#gone + 1] = row[i]
    else
      set[#set + 1] = row[i]
      set[#set + 1] = row[i + 1]
    end
  end
  if #set > 0 then redis.call('HSET', row[1], unpack(set)) end
  if #gone > 0 then redis.call('HDEL', row[1], unpack(gone)) end
end

local function write_entry(row)
  local fields = {}
  for i = 2, #row, 2 do
    if row[i + 1] ~= cjson.null then
      fields[#fields + 1] = row[i]
      fields[#fields + 1] = row[i + 1]
    end
  end
  redis.call('XADD', target, '*', '_epoch', ARGV[2], '_sink', ARGV[8], unpack(fields))
end

local refused
if mode == 'hash' then
  refused = each_row(function(row) return of_type(row[1], 'hash') end)
else
  refused = of_type(target, 'stream')
end
if refused then
  redis.call('UNLINK', staged)
  return refused
end
each_row(mode == 'hash' and write_hash or write_entry)
if mode == 'stream' and ARGV[7] ~= '' then redis.call('XTRIM', target, 'MAXLEN', '~', ARGV[7]) end
redis.call('SET', token, ARGV[3])
redis.call('UNLINK', staged)
return {'taken', ''}
"""
)

SET_TOKEN = _ROLL_TOKEN_BACK + "redis.call('SET', token, ARGV[3]) return {'taken', ''}"
