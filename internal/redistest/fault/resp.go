package fault

import (
	"bytes"
	"strconv"
)

// scanner follows one direction of a connection in Redis's protocol, RESP 2 or 3, however
// it is cut into pieces, and keeps nothing of it but an unfinished line.
type scanner struct {
	heard listener

	line []byte // of a header that has not ended yet
	left []int  // how many values each open aggregate still awaits, the outermost first
	body int    // how much of a string is still to come, with its CRLF
}

// listener is told what a scanner finds.
type listener interface {
	head(line []byte) // the first line of a value at the top, without CRLF
	begin(size int)   // a string right below the top, of so many bytes
	part(data []byte) // its next bytes
	tail()            // the end of a value at the top
}

func (s *scanner) scan(data []byte) {
	for len(data) > 0 {
		if s.body > 0 {
			n := min(s.body, len(data))
			if text := min(s.body-2, n); text > 0 && len(s.left) == 1 {
				s.heard.part(data[:text])
			}
			data = data[n:]
			if s.body -= n; s.body == 0 {
				s.end()
			}
			continue
		}
		i := bytes.IndexByte(data, '\n') + 1
		if i == 0 {
			s.line = append(s.line, data...)
			return
		}
		s.line = append(s.line, data[:i]...)
		data = data[i:]
		s.value(bytes.TrimRight(s.line, "\r\n"))
		s.line = s.line[:0]
	}
}

// value begins a value, and ends one that is a line long. What is not RESP counts as a
// value, too: an inline command.
func (s *scanner) value(line []byte) {
	if len(line) == 0 {
		return
	}
	if len(s.left) == 0 {
		s.heard.head(line)
	}
	size, err := strconv.Atoi(string(line[1:]))
	switch line[0] {
	case '$', '!', '=':
		if err == nil && size >= 0 {
			if s.body = size + 2; len(s.left) == 1 {
				s.heard.begin(size)
			}
			return
		}
	case '%':
		size *= 2
		fallthrough
	case '*', '~', '>':
		if err == nil && size > 0 {
			s.left = append(s.left, size)
			return
		}
	}
	s.end()
}

// end ends a value, and the aggregates that it was the last of.
func (s *scanner) end() {
	for last := len(s.left) - 1; last >= 0; last-- {
		if s.left[last]--; s.left[last] > 0 {
			return
		}
		s.left = s.left[:last]
	}
	s.heard.tail()
}
