-- Books what one copy of a class has used, and says what all have; see exchange.go.
--
-- KEYS[1] is a hash. Its field "state" holds, as little-endian doubles, for each of two
-- buckets its TAT (whole microseconds since 1970, numerator, denominator), for each the
-- units ever booked (in 2^32, and the rest), when the TTL of a gateway may be over first
-- and when the last will be, and when this was written. Each field "gateway:<id>" holds
-- the number of the copy's limiter and of its last report, for each bucket the units
-- booked by then, and when its TTL is over.
-- ARGV[1] is the id. ARGV[2] holds for each bucket its size in microseconds, what a unit
-- takes (whole, numerator, denominator), and the units used now and as of the last
-- answer; the TTL in microseconds; and the numbers of the limiter and of the report.
-- The answer holds what each bucket owes, whole and numerator, the units ever booked to
-- each, and the number of gateways.
--
-- INVARIANT: every number is an integer below 2^53, where doubles are exact; but what is
-- only compared with most may be above.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local pack, unpack = struct.pack, struct.unpack
local key, mine = KEYS[1], 'gateway:' .. ARGV[1]
local most, word = 2 ^ 52, 2 ^ 32

local s1, w1, f1, d1, uh1, ul1, bh1, bl1, s2, w2, f2, d2, uh2, ul2, bh2, bl2, ttl, limiter, report =
  unpack('<ddddddddddddddddddd', ARGV[2])

local found = call('HMGET', key, 'state', mine)
local state, known = found[1], found[2]
local t1, n1, o1, t2, n2, o2, th1, tl1, th2, tl2, first, last, seen = 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0
if state then
  if #state ~= 104 then
    return redis.error_reply('ERR the value of this key is not the state of a class')
  end
  t1, n1, o1, t2, n2, o2, th1, tl1, th2, tl2, first, last, seen = unpack('<ddddddddddddd', state)
end

-- A clock that fell back takes along all times that are kept.
local back = math.max(0, seen - now)
t1, t2 = t1 - back, t2 - back
local gone = {} -- to be dropped at last: out of memory, a server refuses only a script's first write
if back > 0 or now >= first then -- drop who was silent
  first, last = most, 0
  local all = call('HGETALL', key)
  for i = 1, #all, 2 do
    local field, value = all[i], all[i + 1]
    if field ~= 'state' then
      local over = unpack('<d', value, 49) - back
      if over <= now then
        gone[#gone + 1] = field
        if field == mine then
          known = false
        end
      else
        first, last = math.min(first, over), math.max(last, over)
        if back > 0 then
          call('HSET', key, field, value:sub(1, 48) .. pack('<d', over))
        end
      end
    end
  end
end

local late = false -- a later report was here before
if known then
  local l, r, kh1, kl1, kh2, kl2 = unpack('<dddddd', known)
  if l == limiter then
    bh1, bl1, bh2, bl2 = kh1, kl1, kh2, kl2
  end
  late = l == limiter and r > report
end
if late then
  bh1, bl1, bh2, bl2 = uh1, ul1, uh2, ul2
end

local gateways = call('HLEN', key) - #gone
if state then
  gateways = gateways - 1
end
if not known then
  gateways = gateways + 1
end

-- times returns n * f / d, whole and remainder: f is less than d, n at most 2^52.
local function times(n, f, d)
  local whole, rest = 0, n * f
  if rest <= most then
    whole = math.floor(rest / d)
    return whole, rest - whole * d
  end
  rest = 0
  local bit = most
  while bit >= 1 do
    whole, rest = 2 * whole, 2 * rest
    if n >= bit then
      n = n - bit
      if rest >= d then
        whole, rest = whole + 1, rest - d
      end
      rest = rest + f
    end
    if rest >= d then
      whole, rest = whole + 1, rest - d
    end
    bit = bit / 2
  end
  return whole, rest
end

-- book returns what is missing from a bucket after units: never less than nothing. Units
-- are not booked beyond its own size, and of each gateway that and two TTLs; but a debt
-- stays, though the gateways that made it are not heard of any more. What is missing over
-- another denominator is rounded up.
local function book(tat, num, was, size, w, f, den, units)
  local bound = math.min(most, size + gateways * (size + 2 * ttl))
  if was ~= den and num > 0 then
    tat, num = tat + 1, 0
  end
  local us = tat - now
  if us < 0 then
    us, num = 0, 0
  elseif us >= most then
    us, num = most, 0
  end
  local part = 0
  if us >= bound then -- a debt from before
    bound, part = us, num
  end
  local n, up = math.abs(units), units > 0
  if n > most or n * w > most then
    if up then
      return bound, part
    end
    return 0, 0
  end
  local whole, rest = times(n, f, den)
  whole = whole + n * w
  if up then
    us, num = us + whole, num + rest
    if num >= den then
      us, num = us + 1, num - den
    end
    if us >= bound then
      return bound, part
    end
    return us, num
  end
  us, num = us - whole, num - rest
  if num < 0 then
    us, num = us - 1, num + den
  end
  if us < 0 then
    return 0, 0
  end
  return us, num
end

-- add returns the sum of a number of two words and the difference of two others.
local function add(high, low, uh, ul, bh, bl)
  low = low + ul - bl
  local carry = math.floor(low / word)
  return high + uh - bh + carry, low - carry * word
end

local us1, num1 = book(t1, n1, o1, s1, w1, f1, d1, (uh1 - bh1) * word + ul1 - bl1)
local us2, num2 = book(t2, n2, o2, s2, w2, f2, d2, (uh2 - bh2) * word + ul2 - bl2)
th1, tl1 = add(th1, tl1, uh1, ul1, bh1, bl1)
th2, tl2 = add(th2, tl2, uh2, ul2, bh2, bl2)

if not late then
  local over = now + ttl
  first, last = math.min(first, over), math.max(last, over)
  call('HSET', key, mine, pack('<ddddddd', limiter, report, uh1, ul1, uh2, ul2, over))
end
call('HSET', key, 'state', pack('<ddddddddddddd', now + us1, num1, d1, now + us2, num2, d2, th1, tl1, th2, tl2, first, last, now))
for _, field in ipairs(gone) do
  if field ~= mine then
    call('HDEL', key, field)
  end
end
-- A second more than it takes to be full and alone: see gcra.lua.
call('PEXPIRE', key, math.ceil(math.max(us1, us2, last - now) / 1000) + 1000)
return pack('<ddddddddd', us1, num1, us2, num2, th1, tl1, th2, tl2, gateways)
