-- One or more decisions on one key; see doc.go for the model.
--
-- KEYS[1] holds, as little-endian doubles, for each bucket its TAT: whole microseconds
-- since 1970, and a fraction of one as numerator and denominator. No key: all full.
-- ARGV[1] holds, in the same way, 1 or 2 (buckets); of each its size in microseconds,
-- whole and numerator, and the denominator; then for each request its ways (1 own,
-- 2 borrow, 3 both) and, for each bucket, its cost in microseconds, whole and numerator.
-- The answer holds for each request 0 refused, 1 own or 2 borrowed, and of each bucket
-- what is then missing from a full one, whole and numerator.
--
-- INVARIANT: every number is an integer below 2^53, where doubles are exact.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local pack, unpack = struct.pack, struct.unpack
local key, ask = KEYS[1], ARGV[1]
local state = call('GET', key)

-- missing returns how far a TAT lies ahead of now: nothing if it has passed, and never
-- further than an empty bucket's, though the clock may have fallen back or the limit
-- have changed. A fraction over another denominator is rounded up.
local function missing(tat, num, was, size, part, den)
  if was ~= den and num > 0 then
    tat, num = tat + 1, 0
  end
  local us = tat - now
  if us < 0 then
    return 0, 0
  end
  if us < size or us == size and num <= part then
    return us, num
  end
  return size, part
end

local count, s1, p1, d1, s2, p2, d2, at
count, s1, p1, d1, at = unpack('<dddd', ask)
local two = count == 2
if two then
  s2, p2, d2, at = unpack('<ddd', ask, at)
end

local us1, num1, us2, num2 = 0, 0, 0, 0
if state then
  if #state % 24 ~= 0 then -- it may be that of a leaf that had more buckets
    return redis.error_reply('ERR the value of this key is not the state of a limiter')
  end
  local tat, num, den = unpack('<ddd', state)
  us1, num1 = missing(tat, num, den, s1, p1, d1)
  if two and #state >= 48 then
    tat, num, den = unpack('<ddd', state, 25)
    us2, num2 = missing(tat, num, den, s2, p2, d2)
  end
end

local charged = false
local answer, answers, n = nil, nil, 0
while at <= #ask do
  if answer then
    answers = answers or {}
    n = n + 1
    answers[n] = answer
  end
  local ways, c1, cn1, c2, cn2
  ways, c1, cn1, at = unpack('<ddd', ask, at)
  local u1, m1 = us1 + c1, num1 + cn1
  if m1 >= d1 then
    u1, m1 = u1 + 1, m1 - d1
  end
  local own = ways ~= 2 and (u1 < s1 or u1 == s1 and m1 <= p1)
  local verdict = own and 1 or 0
  if two then
    c2, cn2, at = unpack('<dd', ask, at)
    local u2, m2 = us2 + c2, num2 + cn2
    if m2 >= d2 then
      u2, m2 = u2 + 1, m2 - d2
    end
    if u2 > s2 or u2 == s2 and m2 > p2 then
      verdict = 0
    elseif own or ways ~= 1 then
      verdict = own and 1 or 2
      us2, num2 = u2, m2
    end
    if verdict == 1 then
      us1, num1 = u1, m1
    end
    answer = pack('<ddddd', verdict, us1, num1, us2, num2)
  else
    if own then
      us1, num1 = u1, m1
    end
    answer = pack('<ddd', verdict, us1, num1)
  end
  charged = charged or verdict > 0 and (c1 > 0 or cn1 > 0)
end

if charged then
  -- A second more than it takes to be full: keys expire by another reading of the
  -- clock than TIME, and in whole milliseconds. PSETEX is a tenth of the script faster
  -- than SET with PX.
  local ttl = math.ceil(math.max(us1, us2) / 1000) + 1000
  local new = pack('<ddd', now + us1, num1, d1)
  if two then
    new = new .. pack('<ddd', now + us2, num2, d2)
  end
  call('PSETEX', key, ttl, new)
end
if answers then
  answers[n + 1] = answer
  return table.concat(answers)
end
return answer
