package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"conclave/engine/scratch"
)

// attacks is a script that tries some attacks. It prints those that succeed, and nothing if all
// fail.
const attacks = `
cat "$1" && echo "read a file outside the workspace"
echo changed > "$1" && echo "changed a file outside the workspace"
echo new > "$2" && echo "made a file outside the workspace"
cat /proc/$3/environ && echo "read the environment of the worker"
exit 0`

const trialTime = 10 * time.Second

func probe(ctx context.Context) Host {
	h := Host{Level: Off, Landlock: landlockVersion()}
	if runsc, err := exec.LookPath("runsc"); err == nil {
		h.Gvisor = runsc
	}
	var first error
	if h.Landlock > 0 && filters {
		for _, level := range []Level{Full, Landlock} {
			h.Level = level
			err := try(ctx, h)
			if err == nil {
				break
			}
			first, h.Level = cmp.Or(first, err), Off
		}
	}
	if h.Level != Full {
		h.Missing = missing(first, h.Landlock)
	}
	if h.Level == Off {
		return h
	}
	if h.Cgroup = delegated(); h.Cgroup != "" && try(ctx, h) != nil {
		h.Cgroup = "" // it cannot be used; the guard measures instead
	}
	return h
}

// try runs a program and some attacks at the level that the host seems to support.
func try(ctx context.Context, h Host) (err error) {
	temp, err := scratch.Open("", scratch.Probe)
	if err != nil {
		return err
	}
	defer temp.Close()
	dir := temp.Path
	workspace, secret := filepath.Join(dir, "workspace"), filepath.Join(dir, "secret")
	if err := errors.Join(os.Mkdir(workspace, 0o700), os.WriteFile(secret, []byte("secret"), 0o600)); err != nil {
		return err
	}
	s, err := Open(Options{
		Workspace: workspace, Temp: dir, Level: h.Level, Host: h,
		Limits: Limits{Time: trialTime, Processes: 64, Output: 1 << 16},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.tryOne(ctx, "/bin/true"); err != nil {
		return err
	}
	return s.tryOne(ctx, "/bin/sh", "-c", attacks, "sh", secret, filepath.Join(dir, "new"), strconv.Itoa(os.Getpid()))
}

// tryOne runs a program that must succeed without output.
func (s *Sandbox) tryOne(ctx context.Context, args ...string) error {
	var stdout, stderr bytes.Buffer
	exit, err := s.Run(ctx, Command{Args: args, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return err
	}
	if exit.Code != 0 || exit.Ended != "" {
		return fmt.Errorf("%s ended with %d %s%s: %s", args[0], exit.Code, exit.Signal, exit.Ended, strings.TrimSpace(stderr.String()))
	}
	if attack := strings.TrimSpace(stdout.String()); attack != "" {
		return fmt.Errorf("an attack succeeded: %s", attack)
	}
	return nil
}

// missing lists the reasons visible in the host's settings, with their remedies, and the error of
// the trial.
func missing(trial error, landlock int) []string {
	var list []string
	if !filters {
		list = append(list, "there is no system call filter for this processor architecture; run the worker on amd64 or arm64")
	}
	if landlock == 0 {
		list = append(list, "the kernel has no Landlock; use Linux 5.13 or newer with landlock in its lsm= boot parameter, and a container runtime whose seccomp profile lets landlock_create_ruleset through")
	}
	unprivileged := os.Geteuid() != 0
	switch {
	case setting("user/max_user_namespaces") == "0":
		list = append(list, "user namespaces are off (user.max_user_namespaces is 0); set sysctl user.max_user_namespaces=15000")
	case unprivileged && setting("kernel/unprivileged_userns_clone") == "0":
		list = append(list, "user namespaces are off for ordinary users; set sysctl kernel.unprivileged_userns_clone=1")
	case unprivileged && setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		list = append(list, "AppArmor keeps ordinary users from user namespaces; give this program an AppArmor profile with the line userns, or set sysctl kernel.apparmor_restrict_unprivileged_userns=0")
	case contained():
		list = append(list, "the container that the worker runs in refuses namespaces or mounts; give it a seccomp profile that allows clone, unshare, mount and pivot_root (docker run --security-opt seccomp=...), or run the worker outside of it")
	}
	if trial != nil {
		list = append(list, "a command at level full failed: "+trial.Error())
	}
	return list
}

func setting(name string) string { return strings.TrimSpace(content("/proc/sys/" + name)) }

func contained() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return os.Getenv("container") != "" || os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}
