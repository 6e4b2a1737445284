//go:build linux

package attack

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"conclave/activities/sandbox"
)

// beatFile grows in the workspace as long as a daemon of the attacker lives.
const beatFile = "beat"

// onSupervisor are attacks on whoever has to end the command.
func onSupervisor() []attack {
	return []attack{
		{
			name: "kill_supervisor", what: "kill the worker and the attacker's parent, so that nobody ends the daemon it has started",
			try: func(t target) (string, error) { return signalSupervisor(t, unix.SIGKILL) }, worked: outlived, fatal: true,
		},
		{
			name: "freeze_supervisor", what: "stop the worker and the attacker's parent with SIGSTOP, so that no limit is watched any more",
			limits: shortTime,
			try: func(t target) (string, error) {
				_, err := signalSupervisor(t, unix.SIGSTOP)
				time.Sleep(5 * time.Second) // beyond the limit
				return "", err
			},
			worked: outlived, fatal: true,
		},
		{
			name: "worker_killed", what: "outlive a worker that was killed with SIGKILL", lethal: true,
			try: func(t target) (string, error) {
				_, err := spawn(apart, "beat", beatFile, t.Token)
				time.Sleep(20 * time.Second)
				return "", err
			},
			during: func(s *scene) {
				if beats(s) > 0 {
					_ = s.worker.Process.Kill() // it may be dead already
				}
			},
			worked: livesOn, fatal: true,
		},
	}
}

// leftovers are attacks that leave something running.
func leftovers() []attack {
	return []attack{
		{
			name: "daemon", what: "leave a daemon behind, in a session of its own",
			try: func(t target) (string, error) {
				_, err := spawn(apart, "beat", beatFile, t.Token)
				time.Sleep(300 * time.Millisecond)
				return done(err)
			},
			worked: livesOn,
		},
		{
			name: "daemon_hold", what: "leave a daemon behind that holds the command's output open, so that the worker waits for ever",
			try: func(t target) (string, error) {
				cmd, err := command(apart, "beat", beatFile, t.Token)
				if err != nil {
					return "", err
				}
				cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
				err = cmd.Start()
				time.Sleep(300 * time.Millisecond)
				return done(err)
			},
			worked: func(s *scene, t trial) string {
				if t.Took > 5*time.Second {
					return fmt.Sprintf("the command took %v", t.Took.Round(time.Second))
				}
				return livesOn(s, t)
			},
		},
		{
			name: "daemon_hop", what: "leave a daemon behind that starts its successor and ends, over and over, so that no list of processes has it",
			try: func(t target) (string, error) {
				_, err := spawn(apart, "hop", beatFile, t.Token, "500")
				time.Sleep(500 * time.Millisecond)
				return done(err)
			},
			worked: livesOn,
		},
		{
			name: "daemon_asleep", what: "leave a process behind that is stopped",
			try: func(t target) (string, error) {
				cmd, err := spawn(apart, "beat", beatFile, t.Token)
				if err == nil {
					time.Sleep(200 * time.Millisecond)
					err = cmd.Process.Signal(unix.SIGSTOP)
				}
				return done(err)
			},
			worked: func(s *scene, _ trial) string {
				if n := len(remaining(s)); n > 0 {
					return fmt.Sprintf("%d processes of the attacker are left", n)
				}
				return ""
			},
		},
		{
			name: "ignore_signals", what: "ignore every signal that can be ignored, and go on beyond the time limit", limits: shortTime,
			try: func(target) (string, error) {
				deafen()
				time.Sleep(10 * time.Second)
				return "it ran for 10 seconds", nil
			},
			worked: func(s *scene, t trial) string {
				if t.Took > s.limits.Time+3*time.Second {
					return fmt.Sprintf("the command took %v, with a limit of %v", t.Took.Round(time.Second), s.limits.Time)
				}
				return livesOn(s, t)
			},
			fatal: true,
		},
	}
}

// apart is for a process in a session of its own.
var apart = &syscall.SysProcAttr{Setsid: true}

func shortTime(l *sandbox.Limits) { l.Time = 2 * time.Second }

// signalSupervisor leaves a daemon and then signals exactly two processes: the
// worker, by its number on the host, and the attacker's parent.
func signalSupervisor(t target, sig unix.Signal) (string, error) {
	parent := os.Getppid()
	if _, err := spawn(apart, "beat", beatFile, t.Token); err != nil {
		return "", err
	}
	time.Sleep(300 * time.Millisecond)
	var errs []error
	for _, pid := range []int{parent, t.Worker} {
		if pid > 0 && pid != os.Getpid() {
			errs = append(errs, unix.Kill(pid, sig))
		}
	}
	time.Sleep(300 * time.Millisecond)
	return "", errors.Join(errs...)
}

// deafen ignores what can be ignored.
func deafen() {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGXCPU, unix.SIGUSR1, unix.SIGUSR2)
}

func beats(s *scene) int64 {
	info, err := os.Lstat(filepath.Join(s.ws, beatFile))
	if err != nil {
		return 0
	}
	return info.Size()
}

// remaining are the attacker's processes that are left, a moment given.
func remaining(s *scene) []process {
	var left []process
	for range 10 {
		if left = tokenProcesses(s.target.Token); len(left) == 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return left
}

// livesOn is whether something of the attacker lives.
func livesOn(s *scene, _ trial) string {
	if left := remaining(s); len(left) > 0 {
		return fmt.Sprintf("%d processes of the attacker are left", len(left))
	}
	before := beats(s)
	time.Sleep(300 * time.Millisecond)
	if beats(s) != before {
		return "a daemon of the attacker still writes"
	}
	return ""
}

// outlived is whether the worker has suffered, or something of the attacker lives.
func outlived(s *scene, t trial) string {
	if t.lost != "" {
		return t.lost
	}
	if t.Took > s.limits.Time+3*time.Second {
		return fmt.Sprintf("the command took %v, with a limit of %v", t.Took.Round(time.Second), s.limits.Time)
	}
	return livesOn(s, t)
}
