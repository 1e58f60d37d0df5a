package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// simGroups are figure 5: the program htbsim as its users run it, reading and printing
// included. Its table goes nowhere, its series into a JSON file.
func simGroups() []group {
	g := group{
		figure: "5", name: "htbsim", title: "htbsim, table and series on: config/tree.yaml under a load and under traces of 2000 clients", cores: 1,
		columns: []string{"ns", "CPU s", "wall s", "peak MB"}, first: "ns", cold: true,
		contenders: []contender{
			{"load, 2 M decisions", simulated(load)},
			{"trace, 1 M lines", traced(1_000_000)},
		},
		targets: []target{{what: "ns of one core for a police decision", of: "load, 2 M decisions", column: "ns", most: 500}},
	}
	// What is kept grows up to two million lines: lines of two minutes, and series of a
	// step a second, at most 1000. So memory is to be flat from there on.
	long := group{
		figure: "5", name: "trace", title: "htbsim, ever longer traces: series of 1000 steps, but 500 of 1 M lines", cores: 1,
		columns: g.columns, first: "ns", cold: true, long: true,
		contenders: []contender{
			{"trace, 1 M lines", traced(1_000_000)},
			{"trace, 2 M lines", traced(2_000_000)},
			{"trace, 10 M lines", traced(10_000_000)},
			{"trace, 30 M lines", traced(30_000_000)},
		},
		targets: []target{
			{what: "seconds of CPU for ten million lines", of: "trace, 10 M lines", column: "CPU s", most: 20},
			{what: "peak memory of 10 M lines, of that of 2 M", of: "trace, 10 M lines", column: "peak MB", than: []string{"trace, 2 M lines"}, most: 1.1},
			{what: "peak memory of 30 M lines, of that of 2 M", of: "trace, 30 M lines", column: "peak MB", than: []string{"trace, 2 M lines"}, most: 1.1},
		},
	}
	return []group{g, long}
}

// job is what htbsim is given to do: arguments that make so many decisions in so many steps.
type job struct {
	args             []string
	decisions, steps int
}

// simulated runs htbsim once a round.
func simulated(prepare func(o options) (job, error)) func(options) (trial, error) {
	return func(o options) (trial, error) {
		j, err := prepare(o)
		if err != nil {
			return trial{}, err
		}
		series := filepath.Join(o.dir, fmt.Sprint("series", os.Getpid(), ".json"))
		args := append([]string{"run", "--json", series}, j.args...)
		return trial{round: func() (figures, error) {
			cmd := exec.Command(o.htbsim, args...)
			cmd.Stderr = os.Stderr
			start := time.Now()
			if err := cmd.Run(); err != nil {
				return nil, err
			}
			wall := time.Since(start)
			used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			f := figures{"ns": per(used, j.decisions), "CPU s": used.Seconds(), "wall s": wall.Seconds()}
			if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
				f["peak MB"] = float64(u.Maxrss) * kilobyte / 1e6
			}
			return f, j.done(series)
		}}, nil
	}
}

const kilobyte = 1024 // the unit of Maxrss on Linux

// done says whether a result is that of the job.
func (j job) done(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var result struct {
		Classes map[string]struct {
			Wants  int
			Series struct{ Gets []int }
		}
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return err
	}
	if root := result.Classes["global"]; root.Wants != j.decisions || len(root.Series.Gets) != j.steps {
		return fmt.Errorf("htbsim made %d decisions in %d steps, not %d in %d", root.Wants, len(root.Series.Gets), j.decisions, j.steps)
	}
	return nil
}

// load is half of the decisions on one class, half on a thousand clients by name.
func load(o options) (job, error) {
	const perSecond, seconds = 200_000, 10
	path, err := o.file("load.yaml", func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "duration: %ds\nflows:\n  - {class: acme, arrivals: constant, rate: %d/s}\n"+
			"  - {class: \"free/*\", clients: 1000, zipf: 1.1, arrivals: constant, rate: %d/s}\n", seconds, perSecond/2, perSecond/2)
		return err
	})
	return job{[]string{"--load", path}, perSecond * seconds, seconds}, err
}

// traced runs htbsim over a trace of so many lines.
func traced(lines int) func(options) (trial, error) {
	return simulated(func(o options) (job, error) { return trace(o, pick(o, lines, lines/10)) })
}

// trace is a CSV of lines in order, 2000 a second, each client as busy as the next.
func trace(o options, lines int) (job, error) {
	const perSecond = 2000
	path, err := o.file(fmt.Sprint("trace", lines, ".csv"), func(w io.Writer) error {
		fmt.Fprintln(w, "time,class,cost")
		for i := range lines {
			if _, err := fmt.Fprintf(w, "%d.%06d,free/client%d,1\n", i/perSecond, i%perSecond*(1e6/perSecond), i*31%2000); err != nil {
				return err
			}
		}
		return nil
	})
	return job{[]string{"--trace", path}, lines, min(lines/perSecond, 1000)}, err
}

// file returns the path of a file, written if it is not there.
func (o options) file(name string, write func(io.Writer) error) (string, error) {
	path := filepath.Join(o.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return "", err
	}
	if err := w.Flush(); err != nil {
		return "", err
	}
	return path, f.Close()
}
