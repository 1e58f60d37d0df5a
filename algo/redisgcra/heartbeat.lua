-- Keeps which gateways of a tree live: KEYS[1] is a sorted set of their ids, by when
-- their TTLs are over in microseconds since 1970. ARGV[1] is an id, ARGV[2] its TTL. The
-- answer is how many there are.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local key = KEYS[1]
-- The number is exact, and so must be its text.
local function text(n) return string.format('%.0f', n) end
-- What needs memory is first: a server that is out of it refuses only a script's first write.
call('ZADD', key, text(now + ARGV[2]), ARGV[1])
call('ZREMRANGEBYSCORE', key, '-inf', text(now))
local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
call('PEXPIRE', key, math.ceil((last - now) / 1000) + 1000)
return call('ZCARD', key)
