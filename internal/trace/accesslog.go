package trace

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// accessLog parses the common and the combined format. Fields after the size are
// not looked at: combined has two, and sites add their own.
type accessLog struct {
	by   By
	cost CostBy
}

const wantLine = `host ident user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326`

func (*accessLog) format() string { return FormatAccessLog }

func (p *accessLog) parse(line []byte) (record, error) {
	f, err := splitFront(line)
	if err != nil {
		return record{}, err
	}
	request, rest, err := splitRequest(f.rest)
	if err != nil {
		return record{}, err
	}
	size, err := splitSize(rest)
	if err != nil {
		return record{}, err
	}
	rec := record{at: f.at, names: 1, cost: 1}
	if p.cost == CountBytes {
		rec.cost = max(size, 1)
	}
	switch p.by {
	case ByUser:
		rec.class = f.user
	case ByPrefix:
		rec.class = prefix(request)
	default:
		rec.class = f.host
	}
	return rec, nil
}

// front is what stands before the request.
type front struct {
	host, user []byte
	at         int64
	rest       []byte
}

// errFront: the line does not even begin like an access log.
var errFront = errors.New("expected " + wantLine)

// splitFront reads host ident user [time]. A user may have spaces and brackets in
// it, which servers write as they are, so the time is the first bracket that
// holds one.
func splitFront(line []byte) (front, error) {
	i := bytes.IndexByte(line, ' ')
	if i <= 0 {
		return front{}, frontError(line)
	}
	j := bytes.IndexByte(line[i+1:], ' ')
	if j <= 0 {
		return front{}, frontError(line)
	}
	f := front{host: line[:i]}
	user := i + 1 + j + 1
	badTime, badWhy := -1, ""
	for from := user + 1; from <= len(line); {
		k := bytes.IndexByte(line[from:], '[')
		if k < 0 {
			break
		}
		k += from
		if line[k-1] == ' ' {
			at, why := parseTime(line[k:])
			if why == "" {
				f.user, f.at, f.rest = line[user:k-1], at, line[k+timeLen:]
				return f, checkUser(&f, line[i+1:user-1])
			}
			if badTime < 0 {
				badTime, badWhy = k, why
			}
		}
		from = k + 1
	}
	if badTime < 0 {
		return front{}, frontError(line)
	}
	text := line[badTime:min(len(line), badTime+timeLen)]
	if end := bytes.IndexByte(text, ']'); end >= 0 {
		text = text[:end+1]
	}
	return front{}, fmt.Errorf("time %q: %s, expected such as [17/May/2015:10:05:03 +0000]", text, badWhy)
}

func frontError(line []byte) error {
	return fmt.Errorf("%q: %w", clip(line), errFront)
}

// checkUser sees a log that begins with the virtual host, as some servers write
// it. Read as it stands, the site would be taken for the client.
func checkUser(f *front, ident []byte) error {
	if len(f.user) == 0 {
		f.user = []byte("-")
	}
	if len(f.user) > 2 && f.user[0] == '-' && f.user[1] == ' ' && string(ident) != "-" {
		return fmt.Errorf("%q is a field too many before the time (a virtual host?): expected %s", clip(f.host), wantLine)
	}
	return nil
}

// splitRequest reads the quoted request. A quote in it comes as \" from Apache,
// as \x22 from nginx.
func splitRequest(b []byte) (request, rest []byte, err error) {
	if len(b) < 2 || b[0] != ' ' || b[1] != '"' {
		return nil, nil, fmt.Errorf(`after the time %q: expected a request, such as "GET / HTTP/1.1"`, clip(b))
	}
	for end := 2; ; end++ {
		q := bytes.IndexByte(b[end:], '"')
		if q < 0 {
			return nil, nil, fmt.Errorf("request %q: expected a closing quote", clip(b[2:]))
		}
		end += q
		escapes := 0
		for b[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return b[2:end], b[end+1:], nil
		}
	}
}

// splitSize reads status and size, and whatever may follow.
func splitSize(b []byte) (int64, error) {
	status, size, ok := []byte(nil), []byte(nil), len(b) > 0 && b[0] == ' '
	if ok {
		status, size, ok = bytes.Cut(b[1:], []byte{' '})
	}
	if !ok {
		return 0, fmt.Errorf("after the request %q: expected status and size, such as 200 2326", clip(b))
	}
	if string(status) != "-" && !(len(status) == 3 && digits(status) >= 0) {
		return 0, fmt.Errorf("status %q: expected three digits", clip(status))
	}
	if end := bytes.IndexByte(size, ' '); end >= 0 {
		size = size[:end]
	}
	if string(size) == "-" {
		return 0, nil
	}
	n, ok := parseWhole(size)
	if !ok {
		return 0, fmt.Errorf("size %q: expected a whole number of bytes, or -", clip(size))
	}
	return n, nil
}

var (
	slash = []byte("/")
	dash  = []byte("-")
)

// prefix is the first segment of the path of the URL that is asked for. The URL
// stays as the server wrote it: two spellings are two names.
func prefix(request []byte) []byte {
	method, url, ok := bytes.Cut(request, []byte{' '})
	if !ok || len(method) == 0 {
		return dash
	}
	for _, c := range method {
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' {
			return dash
		}
	}
	if end := bytes.IndexByte(url, ' '); end >= 0 {
		url = url[:end]
	}
	if len(url) == 0 {
		return dash
	}
	if url[0] != '/' {
		// A proxy is asked for whole URLs.
		_, after, ok := bytes.Cut(url, []byte("://"))
		if !ok || len(after) == 0 {
			return dash
		}
		url = after[len(after):]
		if path := bytes.IndexAny(after, "/?#"); path >= 0 {
			url = after[path:]
		}
	}
	for len(url) > 0 && url[0] == '/' {
		url = url[1:]
	}
	for i, c := range url {
		if c == '/' || c == '?' || c == '#' {
			url = url[:i]
			break
		}
	}
	if len(url) == 0 {
		return slash
	}
	return url
}

const timeLen = len("[17/May/2015:10:05:03 +0000]")

// parseTime reads a bracketed time at the beginning of b as ns since 1970, or
// says what is wrong with it.
func parseTime(b []byte) (at int64, why string) {
	if len(b) < timeLen {
		return 0, "cut short"
	}
	b = b[:timeLen]
	if b[0] != '[' || b[3] != '/' || b[7] != '/' || b[12] != ':' || b[15] != ':' || b[18] != ':' || b[21] != ' ' || b[27] != ']' {
		return 0, "not a time"
	}
	day, year := digits(b[1:3]), digits(b[8:12])
	hour, minute, second := digits(b[13:15]), digits(b[16:18]), digits(b[19:21])
	zoneHour, zoneMinute := digits(b[23:25]), digits(b[25:27])
	month := monthOf(b[4:7])
	switch {
	case month < 0:
		return 0, "no such month"
	case year < 1970 || year > 2261:
		return 0, "year not from 1970 to 2261" // the years that nanoseconds can count
	case day < 1 || day > monthDays(month, year):
		return 0, "no such day"
	case hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60: // 60: a leap second
		return 0, "no such time of day"
	case zoneHour < 0 || zoneHour > 23 || zoneMinute < 0 || zoneMinute > 59 || b[22] != '+' && b[22] != '-':
		return 0, "no such zone"
	}
	zone := int64(zoneHour*60+zoneMinute) * 60
	if b[22] == '-' {
		zone = -zone
	}
	days := daysTo(year) + daysBefore[month] + day - 1
	if month > 1 && leap(year) {
		days++
	}
	return (int64(days)*86400 + int64(hour*3600+minute*60+second) - zone) * 1e9, ""
}

// digits reads a few digits, -1 if they are not.
func digits(b []byte) int {
	n := 0
	for _, c := range b {
		if c -= '0'; c > 9 {
			return -1
		}
		n = 10*n + int(c)
	}
	return n
}

// parseWhole reads a whole number that fits.
func parseWhole(b []byte) (int64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		c -= '0'
		if c > 9 || len(b) > 18 && n > (math.MaxInt64-int64(c))/10 { // 18 digits fit always
			return 0, false
		}
		n = 10*n + int64(c)
	}
	return n, true
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

// monthOf returns 0 for Jan, -1 for what is no month.
func monthOf(b []byte) int {
	for m := range 12 {
		if name := months[3*m:]; b[0] == name[0] && b[1] == name[1] && b[2] == name[2] {
			return m
		}
	}
	return -1
}

var daysBefore = [13]int{0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365}

func monthDays(month, year int) int {
	if month == 1 && leap(year) {
		return 29
	}
	return daysBefore[month+1] - daysBefore[month]
}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

// daysTo counts the days from 1970 to the beginning of a year.
func daysTo(year int) int {
	leaps := func(y int) int { return y/4 - y/100 + y/400 }
	return 365*(year-1970) + leaps(year-1) - leaps(1969)
}
