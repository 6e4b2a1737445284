package attack

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// setupOpenFile opens the secret file in the worker without close-on-exec, and unlinks it.
func setupOpenFile(s *scene) error {
	var open []*os.File
	for range 5 {
		f, err := os.Open(s.target.Secret)
		if err != nil {
			return err
		}
		s.onClear(func() { f.Close() })
		open = append(open, f)
	}
	s.configure = func(cmd *exec.Cmd) { cmd.ExtraFiles = open }
	return os.Remove(s.target.Secret)
}

func lootDescriptors(target) (string, error) {
	buf := make([]byte, 32<<10)
	for fd := 3; fd < 1024; fd++ {
		if n, err := unix.Pread(fd, buf, 0); err == nil {
			if found, err := findSecrets(buf[:n]); err == nil {
				return found, nil
			}
		}
	}
	return "", errors.New("no open descriptor has a secret")
}

// procPaths returns the path of name in /proc for the worker, for the attacker's parent and for
// each visible process.
func procPaths(t target, name string) []string {
	paths := []string{fmt.Sprintf("/proc/%d/%s", t.Worker, name), fmt.Sprintf("/proc/%d/%s", os.Getppid(), name)}
	for _, dir := range globPaths("/proc/[0-9]*") {
		if dir != fmt.Sprintf("/proc/%d", os.Getpid()) {
			paths = append(paths, dir+"/"+name)
		}
	}
	return paths
}

// lootFiles collects the secrets from all files. It reads all of them because files of other
// programs may contain secrets, too.
func lootFiles(paths ...string) (string, error) {
	var all, errs []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil {
			var found string
			found, err = findSecrets(data)
			all = append(all, found)
		}
		if err != nil {
			errs = append(errs, err.Error())
		}
	}
	if found := strings.TrimSpace(strings.Join(all, " ")); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("%d files: %s", len(paths), strings.Join(errs, "; "))
}

func readMemory(t target) (string, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(t.Worker) + "/mem")
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, len("sk-attack-")+32)
	if _, err := f.ReadAt(buf, t.WorkerAddress); err != nil {
		return "", err
	}
	return findSecrets(buf)
}

func writeLine(path string, flags int) error {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString("The attacker was here.\n")
	return errors.Join(err, f.Close())
}

func fileMade(s *scene, _ trial) string {
	if made := globPaths(s.target.Outside + "/new*"); len(made) > 0 {
		return "there is " + filepath.Base(made[0]) + " beside the workspace"
	}
	return ""
}

func changePeer(target) (string, error) {
	dir, file := peers+"/agent1", peers+"/agent1/"+preyName
	return provenUnless(errors.Join(
		os.Chmod(dir, 0o777),
		os.Chmod(file, 0o777),
		writeLine(file, os.O_WRONLY|os.O_APPEND),
		writeLine(dir+"/new", os.O_WRONLY|os.O_CREATE),
		os.Link(file, "mine"),
		os.Remove(file),
		os.Rename(dir, "mine"),
		os.Rename(peers, "mine")))
}

func peerChanged(s *scene, _ trial) string {
	dir := filepath.Join(s.workspace, peers, "agent1")
	file := filepath.Join(dir, preyName)
	data, err := os.ReadFile(file)
	entries, _ := os.ReadDir(dir)
	info, bad := os.Stat(file)
	mine, _ := os.Stat(filepath.Join(s.workspace, "mine"))
	switch {
	case err != nil || bad != nil || len(entries) != 1 || string(data) != preyText:
		return "the other agent's answer has changed"
	case os.SameFile(mine, info):
		return "the other agent's answer is a file of the workspace, too"
	case info.Mode().Perm()&^preyMode != 0:
		return "the other agent's answer has another mode: " + strings.TrimPrefix(info.Mode().String(), "-")
	}
	return ""
}

func setupTCP(s *scene) error {
	if err := s.openListener("tcp4", "127.0.0.1:0"); err != nil {
		return skipAttack("this host has no IPv4 loopback: %v", err)
	}
	_ = s.openListener("tcp6", "[::1]:0") // not every host has it
	return nil
}

// dialAddresses writes to all addresses. Reaching one of them is a success.
func dialAddresses(network string, addresses []string) (string, error) {
	var errs []error
	for _, address := range addresses {
		c, err := net.DialTimeout(network, address, 2*time.Second)
		if err == nil {
			_, err = c.Write([]byte("The attacker was here."))
			err = errors.Join(err, c.Close())
		}
		errs = append(errs, err)
	}
	return provenUnless(errors.Join(errs...))
}

func makeSocket(name string, family, kind, protocol int) (string, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return "it has a socket of " + name, unix.Close(fd)
}

func killVictim(t target, end func(int) error) (string, error) {
	if t.Victim == os.Getpid() {
		return "", errors.New("cannot tell: the victim's process ID is the attacker's own in this PID namespace")
	}
	return provenUnless(end(t.Victim))
}

// attachDebugger attaches to a process as its debugger, with the option that kills the process when the
// debugger exits.
func attachDebugger(t target) (string, error) {
	const seize, exitKill = 0x4206, 0x100000 // PTRACE_SEIZE, PTRACE_O_EXITKILL
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, seize, uintptr(t.Victim), 0, exitKill, 0, 0); errno != 0 {
		return "", fmt.Errorf("ptrace: %w", errno)
	}
	return provenUnless(nil)
}

func signalSupervisor(t target, sig unix.Signal) (string, error) {
	parent := os.Getppid()
	if _, err := startDaemon("beat", t.Token); err != nil {
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

func beatSize(s *scene) int64 {
	info, err := os.Lstat(filepath.Join(s.workspace, beatFile))
	if err != nil {
		return 0
	}
	return info.Size()
}

func livesOn(s *scene, _ trial) string {
	if left := remainingProcesses(s); len(left) > 0 {
		return fmt.Sprintf("%d processes of the attacker are left", len(left))
	}
	before := beatSize(s)
	time.Sleep(300 * time.Millisecond)
	if beatSize(s) != before {
		return "a daemon of the attacker still writes"
	}
	return ""
}

// workerHarmed returns evidence of harm to the worker, of an exceeded time limit or of a surviving
// process of the attacker.
func workerHarmed(s *scene, t trial) string {
	if t.lost != "" {
		return t.lost
	}
	if t.Took > s.limits.Time+3*time.Second {
		return fmt.Sprintf("the command took %v, with a limit of %v", t.Took.Round(time.Second), s.limits.Time)
	}
	return livesOn(s, t)
}

func mountFilesystem(target) (string, error) {
	if err := os.Mkdir("mnt", 0o700); err != nil {
		return "", err
	}
	if err := unix.Mount("tmpfs", "mnt", "tmpfs", 0, "size=64k"); err != nil {
		return "", fmt.Errorf("mount: %w", err)
	}
	// Unmount it, because a mount would prevent the removal of the workspace.
	return "it has mounted a file system", unix.Unmount("mnt", unix.MNT_DETACH)
}

func newUser(target) (string, error) {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("clone with CLONE_NEWUSER: %w", err)
	}
	return "it had a user namespace", nil
}

// skipUnlessPossible returns a setup that skips an attack that fails even outside the sandbox.
func skipUnlessPossible(try func(target) (string, error)) func(*scene) error {
	return func(s *scene) error {
		if _, err := try(s.target); err != nil {
			return skipAttack("this user cannot do it without a sandbox either: %s", oneLine(err.Error(), 120))
		}
		return nil
	}
}

func loadModule(target) (string, error) {
	err := unix.InitModule([]byte("no module"), "")
	if errors.Is(err, unix.ENOEXEC) {
		return "the kernel looked at the module", nil
	}
	return "", fmt.Errorf("init_module: %w", err)
}

func gainCapabilities(target) (string, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return "", fmt.Errorf("capget: %w", err)
	}
	have := uint64(sets[1].Effective|sets[1].Permitted)<<32 | uint64(sets[0].Effective|sets[0].Permitted)
	if have != 0 {
		return fmt.Sprintf("it has the capabilities %#x", have), nil
	}
	if n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && n == 0 {
		return "set-user-ID programs give it privileges", nil
	}
	return "", fmt.Errorf("no capabilities, and no way to gain some, as user %d", os.Getuid())
}
