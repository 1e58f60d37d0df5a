-- As gcra.lua, for any number of buckets: rate, ceil, and others that must admit too. And
-- it settles: a request of the ways 4 charges all buckets, without asking but no further
-- than empty, 6 all but the first; 5 and 7 refund in the same way, no further than full.
-- A leaf without a ceil that has others has one of size 0 and cost 0 in its place.
--
-- INVARIANT: every number is an integer below 2^53, where doubles are exact.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local pack, unpack = struct.pack, struct.unpack
local key, ask = KEYS[1], ARGV[1]
local state = call('GET', key) or ''
if #state % 24 ~= 0 then
  return redis.error_reply('ERR the value of this key is not the state of a limiter')
end

local count, at = unpack('<d', ask)
local size, part, den, us, num = {}, {}, {}, {}, {} -- num and part over den
for i = 1, count do
  size[i], part[i], den[i], at = unpack('<ddd', ask, at)
  us[i], num[i] = 0, 0
  if #state >= 24 * i then -- what is missing: see gcra.lua
    local tat, n, was = unpack('<ddd', state, 24 * i - 23)
    if was ~= den[i] and n > 0 then
      tat, n = tat + 1, 0
    end
    if tat - now >= 0 then
      us[i], num[i] = tat - now, n
    end
    if us[i] > size[i] or us[i] == size[i] and num[i] > part[i] then
      us[i], num[i] = size[i], part[i]
    end
  end
end

-- after returns what is missing from bucket i after c and n more of it, a sign up or down.
local function after(i, c, n, sign)
  local u, m = us[i] + sign * c, num[i] + sign * n
  if m >= den[i] then
    return u + 1, m - den[i]
  elseif m < 0 then
    return u - 1, m + den[i]
  end
  return u, m
end

local function fits(i, u, m)
  return u < size[i] or u == size[i] and m <= part[i]
end

local charged, answers = false, {}
while at <= #ask do
  local ways, verdict, u, m = nil, 0, {}, {}
  ways, at = unpack('<d', ask, at)
  local settles, ok = ways >= 4, {}
  local sign = settles and ways % 2 == 1 and -1 or 1
  for i = 1, count do
    local c, n
    c, n, at = unpack('<dd', ask, at)
    u[i], m[i] = after(i, c, n, sign)
    ok[i] = fits(i, u[i], m[i])
    if settles and not ok[i] then
      u[i], m[i] = size[i], part[i]
    elseif settles and u[i] < 0 then
      u[i], m[i] = 0, 0
    end
  end
  if settles then
    verdict = ways >= 6 and 2 or 1
  elseif ways % 2 == 1 and ok[1] then
    verdict = 1
  elseif ways >= 2 then
    verdict = 2
  end
  for i = 2, count do
    if not settles and not ok[i] then
      verdict = 0
    end
  end
  local answer = {pack('<d', verdict)}
  for i = 1, count do
    if verdict > 0 and i >= verdict then
      charged = charged or u[i] ~= us[i] or m[i] ~= num[i]
      us[i], num[i] = u[i], m[i]
    end
    answer[i + 1] = pack('<dd', us[i], num[i])
  end
  answers[#answers + 1] = table.concat(answer)
end

if charged then
  local new, longest = {}, 0
  for i = 1, count do
    new[i] = pack('<ddd', now + us[i], num[i], den[i])
    longest = math.max(longest, us[i])
  end
  local ttl = math.ceil(longest / 1000) + 1000
  call('PSETEX', key, ttl, table.concat(new))
end
return table.concat(answers)
