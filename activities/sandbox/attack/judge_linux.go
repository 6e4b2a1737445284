package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"conclave/activities/sandbox"
	"conclave/engine/text"
)

type attack struct {
	name, what string

	try   func(target) (string, error) // runs in the sandbox; returns the attacker's own proof of success
	proof func(*scene, trial) string   // runs on the host afterwards; returns evidence of success, or ""

	setup   func(*scene) error    // runs on the host before; may return a *skipped
	observe func(*scene)          // runs on the host every 20 ms
	limits  func(*sandbox.Limits) // changes the standard limits
	known   string                // why level landlock does not promise to stop it; empty if it does
	fatal   bool                  // the attacker may be killed
	lethal  bool                  // the worker is killed
}

type trial struct {
	account
	report report
	lost   string // why the worker gave no account: it is dead or hangs
	hung   bool   // whether the worker hangs
}

type check struct {
	options  Options
	self     string // path of this binary
	dir      string // temporary directory of all attacks
	programs string // directory of the attacker's program
}

// runAttacks performs the attacks of list that o selects, in a directory below parent. The path of parent
// must be short, because the length of socket paths is limited.
func runAttacks(ctx context.Context, list []attack, o Options, parent string) (results []Result, err error) {
	for _, name := range o.Only {
		if _, ok := findAttack(list, name); !ok {
			return nil, fmt.Errorf("no attack %q; there are: %s", name, strings.Join(attackNames(list), ", "))
		}
	}
	c := &check{options: o}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	if err := c.prepareDir(parent); err != nil {
		return nil, fmt.Errorf("prepare the attacks: %w", err)
	}
	for _, a := range list {
		if len(o.Only) > 0 && !slices.Contains(o.Only, a.name) {
			continue
		}
		r := c.judgeAttack(ctx, a)
		if err := ctx.Err(); err != nil {
			return results, err
		}
		results = append(results, r)
		if o.Each != nil {
			o.Each(r)
		}
	}
	return results, nil
}

func attackNames(list []attack) []string {
	return text.Each(list, func(a attack) string { return a.name })
}

func findAttack(list []attack, name string) (attack, bool) {
	i := slices.IndexFunc(list, func(a attack) bool { return a.name == name })
	if i < 0 {
		return attack{}, false
	}
	return list[i], true
}

// prepareDir creates the temporary directory, opens a sandbox to validate the options, and copies this
// binary to a directory where commands can run it.
func (c *check) prepareDir(parent string) (err error) {
	if c.dir, err = os.MkdirTemp(parent, "attack"); err != nil {
		return err
	}
	if c.self, err = os.Executable(); err != nil {
		return err
	}
	workspace := filepath.Join(c.dir, "workspace")
	c.programs = filepath.Join(c.dir, "bin")
	// The attacker may run as another user, who needs access to the program.
	if err := errors.Join(os.Chmod(c.dir, 0o711), os.Mkdir(workspace, 0o700), os.Mkdir(c.programs, 0o755)); err != nil {
		return err
	}
	box, err := sandbox.Open(sandbox.Options{
		Workspace: workspace, Temp: c.dir, Level: c.options.Level, Host: c.options.Host,
		Toolchains: c.options.Toolchains, Private: c.options.Private,
	})
	if err != nil {
		return err
	}
	return errors.Join(box.Close(), copyProgram(c.self, filepath.Join(c.programs, attacker)))
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func (c *check) judgeAttack(ctx context.Context, a attack) Result {
	start := time.Now()
	r := Result{Name: a.name, What: a.what, Outcome: unknown}
	switch c.options.Level {
	case sandbox.Landlock:
		r.Known = a.known
	case sandbox.Off:
		r.Known = "level off promises nothing"
	}
	if s, err := newScene(c.dir, a); err != nil {
		r.Detail = err.Error()
	} else {
		r.Outcome, r.Detail = c.decideOutcome(ctx, a, s)
		if err := s.clear(); err != nil && r.Outcome == stopped {
			r.Outcome, r.Detail = unknown, err.Error()
		}
	}
	r.Seconds = time.Since(start).Seconds()
	return r
}

func (c *check) decideOutcome(ctx context.Context, a attack, s *scene) (outcome, detail string) {
	if a.setup != nil {
		if err := a.setup(s); err != nil {
			if no, ok := errors.AsType[*skipped](err); ok {
				return notTried, no.why
			}
			return unknown, "prepare the attack: " + err.Error()
		}
	}
	t, err := c.carryOut(ctx, a, s)
	if err != nil {
		return unknown, err.Error()
	}
	if evidence := a.proof(s, t); evidence != "" {
		return open, evidence
	}
	if t.hung {
		return open, t.lost
	}
	return t.unprovenOutcome(a)
}

func (t trial) unprovenOutcome(a attack) (outcome, detail string) {
	switch {
	case t.lost != "" && a.lethal:
		return stopped, "nothing of it was left"
	case t.lost != "":
		return unknown, t.lost
	case t.Fault != "":
		return unknown, t.Fault
	case !t.report.Started:
		return unknown, "the attacker did not start, " + t.describeEnding()
	case t.report.Error != "":
		return stopped, oneLine(t.report.Error, 160)
	case t.Exit.Ended != "":
		return stopped, fmt.Sprintf("ended by the limit of %s", t.Exit.Ended)
	case t.Exit.Signal != "":
		return stopped, "killed by " + t.Exit.Signal
	case t.report.Ended:
		return stopped, "no error in the sandbox, and no effect on the host"
	case a.fatal:
		return stopped, "the attacker was ended"
	}
	return unknown, "the attacker ended without a report, " + t.describeEnding()
}

func (t trial) describeEnding() string {
	return fmt.Sprintf("exit code %d, signal %q, limit %q: %s", t.Exit.Code, t.Exit.Signal, t.Exit.Ended, oneLine(string(t.Output), 300))
}

// workerGrace is added to the time limit of an attack before its worker is killed.
const workerGrace = 8 * time.Second

// carryOut does not fail if the worker dies or hangs, because that may be the effect of the attack.
func (c *check) carryOut(ctx context.Context, a attack, s *scene) (t trial, err error) {
	order, _ := json.Marshal(workOrder{Target: s.target, Sandbox: sandbox.Options{
		Workspace: s.workspace, Temp: s.temp, ReadOnly: []string{peers}, Toolchains: append([]string{c.programs}, c.options.Toolchains...),
		Level: c.options.Level, Limits: s.limits, Host: c.options.Host,
	}}) // an order always has a JSON form
	var out, errs bytes.Buffer
	s.worker = c.workerCommand(s)
	s.worker.Stdin, s.worker.Stdout, s.worker.Stderr = bytes.NewReader(order), &out, &errs
	if err := s.worker.Start(); err != nil {
		return t, fmt.Errorf("start the worker of an attack: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.worker.Wait() }()
	if t.hung, err = s.observeWorker(ctx, a, ended); t.hung {
		t.lost = fmt.Sprintf("the command did not end in %v, and its worker had to be killed", s.limits.Time+workerGrace)
	}
	if ctx.Err() != nil {
		return t, ctx.Err()
	}
	if bad := json.Unmarshal(out.Bytes(), &t.account); bad != nil && t.lost == "" {
		t.lost = fmt.Sprintf("the worker is gone (%v): %s", err, oneLine(errs.String(), 300))
	}
	for line := range bytes.Lines(t.Output) {
		_ = json.Unmarshal(line, &t.report) // other output is not JSON
	}
	return t, nil
}

// observeWorker calls the attack's observer until the worker ends. It kills the worker when ctx ends or
// the worker hangs.
func (s *scene) observeWorker(ctx context.Context, a attack, ended <-chan error) (hung bool, err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline, stop := time.After(s.limits.Time+workerGrace), ctx.Done()
	for {
		if a.observe != nil {
			a.observe(s)
		}
		select {
		case <-tick.C:
		case <-deadline:
			hung = true
			_ = s.worker.Process.Kill() // it may have ended meanwhile
		case <-stop:
			stop = nil
			_ = s.worker.Process.Kill()
		case err := <-ended:
			if a.observe != nil {
				a.observe(s)
			}
			return hung, err
		}
	}
}

// workerCommand returns the command of a worker that holds a secret in its environment, arguments and memory.
func (c *check) workerCommand(s *scene) *exec.Cmd {
	cmd := exec.Command(c.self, ChildCommand, "work", "--key="+s.secret)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.base, "TMPDIR=" + s.temp, keyVariable + "=" + s.secret}
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.configure != nil {
		s.configure(cmd)
	}
	return cmd
}

func oneLine(s string, limit int) string { return text.Truncate(text.OneLine(s), limit) }
