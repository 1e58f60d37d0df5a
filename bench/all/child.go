package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
)

// A contender's process reads a line for each round, and answers with one; at the end of
// its input it checks what it counted, and answers once more.
type answer struct {
	Figures figures
	Err     string
}

// serve is the contender's side.
func serve(path string, o options, in io.Reader, out io.Writer) error {
	c, err := find(path)
	if err != nil {
		return err
	}
	reply := json.NewEncoder(out)
	t, err := c.make(o)
	if err != nil {
		return err
	}
	if err := reply.Encode(answer{}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		f, err := t.round()
		if err != nil {
			return err
		}
		if err := reply.Encode(answer{Figures: f}); err != nil {
			return err
		}
	}
	if t.check != nil {
		if err := t.check(); err != nil {
			return err
		}
	}
	return reply.Encode(answer{})
}

// process is the other side.
type process struct {
	path  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	reply *json.Decoder
}

func start(path string, cores int, o options) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{path: path, cmd: exec.Command(self, "-contender", path, "-dir", o.dir, "-htbsim", o.htbsim, "-short="+strconv.FormatBool(o.short))}
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(cores))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.reply = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := p.hear(); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

func (p *process) hear() (figures, error) {
	var a answer
	if err := p.reply.Decode(&a); err != nil {
		return nil, fmt.Errorf("%s: no answer: %w", p.path, err)
	}
	if a.Err != "" {
		return nil, fmt.Errorf("%s: %s", p.path, a.Err)
	}
	return a.Figures, nil
}

func (p *process) round() (figures, error) {
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		return nil, err
	}
	return p.hear()
}

// end has the contender check itself, and waits for it.
func (p *process) end() error {
	if err := p.in.Close(); err != nil {
		return err
	}
	_, err := p.hear()
	return errors.Join(err, p.cmd.Wait())
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
