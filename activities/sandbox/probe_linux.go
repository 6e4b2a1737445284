package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// attacks is what a trial tries. It says which attempt worked, and nothing if all failed.
const attacks = `
cat "$1" && echo "read a file outside the workspace"
echo changed > "$1" && echo "changed a file outside the workspace"
echo new > "$2" && echo "made a file outside the workspace"
cat /proc/$3/environ && echo "read the environment of the worker"
exit 0`

const trialTime = 10 * time.Second

func probe(ctx context.Context) Host {
	h := Host{Landlock: landlockVersion()}
	levels := []Level{Full, Landlock}
	if h.Landlock == 0 || !filters {
		levels = nil
	}
	var first error
	for _, level := range levels {
		h.Level = level
		idmap, err := try(ctx, h)
		if err == nil {
			h.IDMap = idmap
			break
		}
		if first == nil {
			first = err
		}
		h.Level = ""
	}
	if h.Level == "" {
		h.Level = Off
	}
	if h.Level != Full {
		h.Missing = missing(first, h.Landlock)
	}
	if h.Level != Off {
		if h.Cgroup = delegated(); h.Cgroup != "" {
			if _, err := try(ctx, h); err != nil {
				h.Cgroup = "" // it cannot be used after all; the watchdog does without
			}
		}
	}
	return h
}

// try runs a program and some attacks at the host's supposed level.
func try(ctx context.Context, h Host) (idmap bool, err error) {
	dir, err := os.MkdirTemp("", "sandbox-probe-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	workspace, secret := filepath.Join(dir, "workspace"), filepath.Join(dir, "secret")
	if err := errors.Join(os.Mkdir(workspace, 0o700), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
		return false, err
	}
	s, err := open(Options{
		Workspace: workspace, Temp: dir, Level: h.Level, Host: h,
		Limits: Limits{Time: trialTime, Processes: 64, Output: 1 << 16},
	})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.tryOne(ctx, "/bin/true"); err != nil {
		return false, err
	}
	err = s.tryOne(ctx, "/bin/sh", "-c", attacks, "sh", secret, filepath.Join(dir, "new"), strconv.Itoa(os.Getpid()))
	return s.host.idmap != nil, err
}

// tryOne runs a program that has to succeed and to say nothing.
func (s *Sandbox) tryOne(ctx context.Context, args ...string) error {
	var stdout, stderr bytes.Buffer
	exit, err := s.run(ctx, Command{Args: args, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return err
	}
	if exit.Code != 0 || exit.Ended != "" {
		return fmt.Errorf("%s ended with %d %s%s: %s", args[0], exit.Code, exit.Signal, exit.Ended, strings.TrimSpace(stderr.String()))
	}
	if said := strings.TrimSpace(stdout.String()); said != "" {
		return fmt.Errorf("a command could do what it must not: %s", said)
	}
	return nil
}
