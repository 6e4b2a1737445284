package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// outputWait is how long the output of a command that has ended is waited for, when something that
// escaped holds it open.
const outputWait = 2 * time.Second

// plain starts a command that nothing confines: level off.
func (s *Sandbox) plain(c Command, stdout, stderr stream) (*running, error) {
	env := s.environment(c.Env)
	program, err := lookPath(c.Args[0], searchPath(s.options.Toolchains), filepath.Join(s.inside, c.Dir))
	if err != nil {
		return refusal(err, stderr), nil
	}
	cmd := exec.Command(program)
	cmd.Args = c.Args
	cmd.Env = env
	cmd.Dir = filepath.Join(s.inside, c.Dir)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = outputWait
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return refusal(err, stderr), nil
	}
	over, finish := context.WithCancel(context.Background())
	kill := func() {
		if over.Err() == nil {
			killGroup(cmd.Process)
		}
	}
	wait := func() (ended, error) {
		err := cmd.Wait()
		killGroup(cmd.Process)
		finish()
		return plainEnd(cmd.ProcessState, err)
	}
	return &running{kill: kill, wait: wait}, nil
}

// plainEnd tells how a process ended. That the output was cut off is the caller's to know.
func plainEnd(state *os.ProcessState, err error) (ended, error) {
	if state == nil {
		return ended{}, err
	}
	e := ended{Exit: Exit{Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime(), MaxMemory: maxMemory(state)}}
	if number, name := signalOf(state); name != "" {
		e.Code, e.Signal, e.killed = 128+number, name, true
	}
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, errOutput) {
		return e, nil
	}
	return e, err
}

// refusal is a command that could not be started, told as a shell tells it.
func refusal(err error, stderr stream) *running {
	return &running{kill: func() {}, wait: func() (ended, error) {
		_, _ = stderr.Write([]byte(err.Error() + "\n")) // a failing writer is reported by the output
		return ended{Exit: Exit{Code: refusalCode(err)}}, nil
	}}
}

// refusalCode is the exit code of a program that is not there, or that cannot be run.
func refusalCode(err error) int {
	if errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}
