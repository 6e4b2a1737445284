package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// outputWait bounds the time that Run waits after the end of a command for output that an escaped
// process holds open.
const outputWait = 2 * time.Second

func (s *Sandbox) startUnconfined(c Command, stdout, stderr stream) (*running, error) {
	dir := filepath.Join(s.inside, c.Dir)
	program, err := lookPath(c.Args[0], searchPath(s.options.Toolchains), dir)
	if err != nil {
		return refused(err, stderr), nil
	}
	cmd := exec.Command(program)
	cmd.Args = c.Args
	cmd.Env = s.environment(c.Env)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = outputWait
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return refused(err, stderr), nil
	}
	ended, finish := context.WithCancel(context.Background())
	kill := func() {
		if ended.Err() == nil {
			killGroup(cmd.Process)
		}
	}
	wait := func() (Exit, error) {
		err := cmd.Wait()
		killGroup(cmd.Process)
		finish()
		return unconfinedExit(cmd.ProcessState, err)
	}
	return &running{kill: kill, wait: wait}, nil
}

// unconfinedExit converts the state of an ended process. The caller handles the output limit.
func unconfinedExit(state *os.ProcessState, err error) (Exit, error) {
	if state == nil {
		return Exit{}, err
	}
	e := Exit{Code: state.ExitCode(), CPU: state.UserTime() + state.SystemTime()}
	if number, name := signalOf(state); name != "" {
		e.Code, e.Signal = 128+number, name
	}
	if _, failed := errors.AsType[*exec.ExitError](err); failed || errors.Is(err, exec.ErrWaitDelay) || errors.Is(err, exceeded(endedOutput)) {
		return e, nil
	}
	return e, err
}

// refused returns a command that could not be started. Like a shell, it prints the error and exits.
func refused(err error, stderr stream) *running {
	return &running{kill: func() {}, wait: func() (Exit, error) {
		_, _ = stderr.Write([]byte(err.Error() + "\n")) // the writer's error ends the command
		return Exit{Code: refusalCode(err)}, nil
	}}
}

// refusalCode returns the exit code of a shell for a program that does not exist or cannot be run.
func refusalCode(err error) int {
	if errors.Is(err, os.ErrNotExist) {
		return 127
	}
	return 126
}
