//go:build linux

package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"conclave/activities/sandbox"
)

// attack is one entry of the list.
type attack struct {
	name, what string

	known  string                       // why level landlock leaves it open; empty if it promises to stop it
	plant  func(*scene) error           // on the host, before; a *notTried ends it there
	limits func(*sandbox.Limits)        // other ones than the standard
	try    func(target) (string, error) // inside; what proves it, as far as the attacker can tell
	during func(*scene)                 // on the host, every 20 ms
	worked func(*scene, trial) string   // on the host, after: the evidence, empty if it did not work
	fatal  bool                         // the attacker may be killed on the way
	lethal bool                         // the worker is to die
}

// trial is what happened in one attack.
type trial struct {
	account
	report   report
	started  bool
	reported bool
	lost     string // why there is no account: the worker is dead or hangs
	hung     bool   // the worker hangs
}

// patience is how long a worker with its attack may take beyond the time limit.
const patience = 8 * time.Second

// judge carries out one attack in a directory of its own and decides.
func (c *check) judge(ctx context.Context, a attack) (r Result) {
	start := time.Now()
	r = Result{Name: a.name, What: a.what, Outcome: Unknown}
	switch c.options.Level {
	case sandbox.Landlock:
		r.Known = a.known
	case sandbox.Off:
		r.Known = "level off promises nothing"
	}
	defer func() { r.Seconds = time.Since(start).Seconds() }()
	base, err := os.MkdirTemp(c.dir, "a")
	if err != nil {
		r.Detail = err.Error()
		return r
	}
	s, err := newScene(base, c.options.Level, a)
	if err != nil {
		r.Detail = err.Error()
		return r
	}
	r.Outcome, r.Detail = c.decide(ctx, a, s)
	if err := s.clear(); err != nil && r.Outcome == Stopped {
		r.Outcome, r.Detail = Unknown, err.Error()
	}
	return r
}

func (c *check) decide(ctx context.Context, a attack, s *scene) (Outcome, string) {
	if a.plant != nil {
		err := a.plant(s)
		var no *notTried
		switch {
		case errors.As(err, &no):
			return NotTried, no.why
		case err != nil:
			return Unknown, "prepare the attack: " + err.Error()
		}
	}
	t, err := c.carryOut(ctx, a, s)
	if err != nil {
		return Unknown, err.Error()
	}
	if evidence := a.worked(s, t); evidence != "" {
		return Open, evidence
	}
	switch {
	case t.hung:
		return Open, t.lost
	case t.lost != "" && a.lethal:
		return Stopped, "nothing of it was left"
	case t.lost != "":
		return Unknown, t.lost
	case t.Fault != "":
		return Unknown, t.Fault
	case !t.started:
		return Unknown, fmt.Sprintf("the attacker did not start, %s: %s", how(t.Exit), oneLine(string(t.Output), 300))
	case t.reported && t.report.Error != "":
		return Stopped, oneLine(t.report.Error, 160)
	case t.Exit.Ended != "":
		return Stopped, fmt.Sprintf("ended by the limit of %s", t.Exit.Ended)
	case t.Exit.Signal != "":
		return Stopped, "killed by " + t.Exit.Signal
	case t.reported:
		return Stopped, "the attacker saw nothing wrong; the host has seen no effect"
	case a.fatal:
		return Stopped, "the attacker was ended"
	}
	return Unknown, fmt.Sprintf("the attacker ended without a report, %s: %s", how(t.Exit), oneLine(string(t.Output), 300))
}

// carryOut runs a worker with the attack and watches.
func (c *check) carryOut(ctx context.Context, a attack, s *scene) (t trial, err error) {
	given, err := json.Marshal(order{
		Level: s.level, Limits: s.limits, Host: c.options.Host, Workspace: s.ws, Temp: s.temp, Programs: append([]string{c.programs}, c.options.Toolchains...), Target: s.target,
	})
	if err != nil {
		return t, fmt.Errorf("write the order of an attack: %w", err)
	}
	var out, errs bytes.Buffer
	cmd := c.worker(s)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(given), &out, &errs
	if err := cmd.Start(); err != nil {
		return t, fmt.Errorf("start the worker of an attack: %w", err)
	}
	s.worker = cmd
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(s.limits.Time + patience)
	for waiting := true; waiting; {
		select {
		case <-tick.C:
			if a.during != nil {
				a.during(s)
			}
		case <-deadline:
			t.lost = fmt.Sprintf("the command did not end in %v, and its worker had to be killed", s.limits.Time+patience)
			t.hung = true
			_ = cmd.Process.Kill() // it may have ended meanwhile
		case <-ctx.Done():
			_ = cmd.Process.Kill()
			<-ended //nolint:errcheck // it was killed
			return t, ctx.Err()
		case err = <-ended:
			waiting = false
		}
	}
	if a.during != nil {
		a.during(s)
	}
	if bad := json.Unmarshal(out.Bytes(), &t.account); bad != nil && t.lost == "" {
		t.lost = fmt.Sprintf("the worker is gone (%v): %s", err, oneLine(errs.String(), 300))
	}
	t.report, t.started, t.reported = parse(t.Output)
	return t, nil
}

// worker is a process like the one that runs the steps of sessions: it has a
// secret in its environment, its arguments, its memory and an open file.
func (c *check) worker(s *scene) *exec.Cmd {
	cmd := exec.Command(c.self, ChildCommand, "work", "--key="+s.secret)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.base, "TMPDIR=" + s.temp, keyVariable + "=" + s.secret}
	cmd.ExtraFiles = s.files
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: s.terminal == nil}
	if s.terminal != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
		cmd.ExtraFiles = []*os.File{s.terminal}
	}
	return cmd
}

// Evidence that many attacks share.

func stolen(s *scene, t trial) string {
	if bytes.Contains(t.Output, []byte(s.secret)) {
		return "the secret is in the output"
	}
	return ""
}

func claimed(_ *scene, t trial) string {
	if t.reported && t.report.Proof != "" {
		return t.report.Proof
	}
	return ""
}

func reached(s *scene, _ trial) string {
	if s.arrival() {
		return "it arrived at the host's socket"
	}
	return ""
}

func killed(s *scene, _ trial) string {
	if s.victim.dead() {
		return "the victim is dead"
	}
	return ""
}

func how(e sandbox.Exit) string {
	return fmt.Sprintf("exit code %d, signal %q, limit %q", e.Code, e.Signal, e.Ended)
}

func oneLine(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
