package attack

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"conclave/activities/sandbox"
)

// scene is the host's part of one attack: its directories, listeners and victim. It belongs to the judge.
type scene struct {
	base      string // parent of the directories
	workspace string
	temp      string
	secret    string
	target    target
	limits    sandbox.Limits

	configure func(*exec.Cmd) // changes the worker before it starts; nil for no change
	worker    *exec.Cmd       // started after the setup
	victim    chan struct{}   // closed when the victim is dead; nil without one
	arrived   atomic.Bool     // a listener of the host or of the attacker was reached
	peak      int64           // the most that a bomb used
	cleanup   []func()
}

// skipped is the error of an attack that cannot be tried on this host.
type skipped struct{ why string }

func (n *skipped) Error() string { return n.why }

func skipAttack(format string, args ...any) error { return &skipped{fmt.Sprintf(format, args...)} }

// Files in the directory beside the workspace and in a peer's directory.
const (
	secretName = "secret.txt"
	preyName   = "prey.txt"
	preyText   = "This file belongs to the host.\n"
	preyMode   = 0o666
)

// newScene creates the files that all attacks use. Only the sandbox prevents other users from reading them.
func newScene(dir string, a attack) (*scene, error) {
	base, err := os.MkdirTemp(dir, "a")
	if err != nil {
		return nil, err
	}
	s := &scene{
		base: base, workspace: filepath.Join(base, "ws"), temp: filepath.Join(base, "tmp"),
		secret: "sk-attack-" + newToken(), limits: standardLimits(),
	}
	if a.limits != nil {
		a.limits(&s.limits)
	}
	outside, peer := filepath.Join(base, "outside"), filepath.Join(s.workspace, peers, "agent1")
	s.target = target{
		Name: a.name, Token: newToken(), Outside: outside,
		Secret: filepath.Join(outside, secretName), Prey: filepath.Join(outside, preyName),
	}
	err = os.Chmod(base, 0o711)
	for _, dir := range []string{outside, s.temp, peer} {
		err = errors.Join(err, os.MkdirAll(dir, 0o755))
	}
	err = errors.Join(err, os.Chmod(outside, 0o777))
	for name, text := range map[string]string{s.target.Secret: s.secret + "\n", s.target.Prey: preyText, filepath.Join(peer, preyName): preyText} {
		err = errors.Join(err, os.WriteFile(name, []byte(text), 0o600), os.Chmod(name, preyMode))
	}
	if err != nil {
		return nil, fmt.Errorf("make the scene of an attack: %w", err)
	}
	return s, nil
}

// standardLimits returns limits that are low, to keep bombs cheap.
func standardLimits() sandbox.Limits {
	return sandbox.Limits{
		Time: 10 * time.Second, CPU: 20 * time.Second, Memory: 256 << 20, Processes: 64,
		Disk: 64 << 20, Files: 2000, Output: 1 << 20,
	}
}

func newToken() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// onClear registers a cleanup. Cleanups run in reverse order.
func (s *scene) onClear(f func()) { s.cleanup = append(s.cleanup, f) }

// clear removes the scene and kills the processes that have its token.
func (s *scene) clear() error {
	for range 100 { // some processes start others before they are killed
		left := processesWith(s.target.Token)
		if len(left) == 0 {
			break
		}
		for _, pid := range left {
			killProcess(pid)
		}
	}
	for i := len(s.cleanup) - 1; i >= 0; i-- {
		s.cleanup[i]()
	}
	if err := os.RemoveAll(s.base); err != nil {
		return fmt.Errorf("remove the scene of an attack: %w", err)
	}
	return nil
}

// openListener opens a socket on the host that every user can reach, records whether something arrives,
// and adds the socket's address to the target.
func (s *scene) openListener(network, address string) error {
	var socket io.Closer
	var local net.Addr
	if network == "udp4" || network == "unixgram" {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			return err
		}
		socket, local = c, c.LocalAddr()
		go func() {
			if _, _, err := c.ReadFrom(make([]byte, 64)); err == nil {
				s.arrived.Store(true)
			}
		}()
	} else {
		l, err := net.Listen(network, address)
		if err != nil {
			return err
		}
		socket, local = l, l.Addr()
		go func() {
			if c, err := l.Accept(); err == nil {
				s.arrived.Store(true)
				_ = c.Close()
			}
		}()
	}
	s.onClear(func() { _ = socket.Close() })
	s.target.Addresses = append(s.target.Addresses, local.String())
	if strings.HasPrefix(address, "/") {
		return os.Chmod(address, 0o777)
	}
	return nil
}

func setupVictim(s *scene) error { return s.startVictim(exec.Command("sleep", "120")) }

func (s *scene) startVictim(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a victim: %w", err)
	}
	dead := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the victim is killed
		close(dead)
	}()
	s.victim, s.target.Victim = dead, cmd.Process.Pid
	s.onClear(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-dead
	})
	return nil
}

// Proofs that several attacks use.

func secretStolen(s *scene, t trial) string {
	if bytes.Contains(t.Output, []byte(s.secret)) {
		return "the secret is in the output"
	}
	return ""
}

func proofClaimed(_ *scene, t trial) string { return t.report.Proof }

func preyChanged(s *scene, _ trial) string {
	data, err := os.ReadFile(s.target.Prey)
	if err != nil || string(data) != preyText {
		return "the host's file has changed"
	}
	if info, err := os.Stat(s.target.Prey); err == nil && info.Mode().Perm() != preyMode {
		return "the host's file has the mode " + info.Mode().String()
	}
	return ""
}

func socketReached(s *scene, _ trial) string {
	for range 10 { // a datagram may be under way
		if s.arrived.Load() {
			return "it arrived at the host's socket"
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ""
}

func victimKilled(s *scene, _ trial) string {
	select {
	case <-s.victim:
		return "the victim is dead"
	case <-time.After(200 * time.Millisecond):
		return ""
	}
}

// processesWith returns the IDs of the processes with token in their arguments, except this one.
func processesWith(token string) []int {
	var found []int
	for _, dir := range globPaths("/proc/[0-9]*") {
		line, err := os.ReadFile(dir + "/cmdline")
		pid, bad := strconv.Atoi(filepath.Base(dir))
		if err == nil && bad == nil && pid != os.Getpid() && bytes.Contains(line, []byte(token)) {
			found = append(found, pid)
		}
	}
	return found
}

// remainingProcesses returns the attacker's processes that are still running after half a second.
func remainingProcesses(s *scene) []int {
	var left []int
	for range 10 {
		if left = processesWith(s.target.Token); len(left) == 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return left
}

// killProcess uses a pidfd, which cannot refer to another process that reuses the ID.
func killProcess(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// readNumber returns the number in a line "key: number kB" of a file.
func readNumber(file, key string) int64 {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				n, _ := strconv.ParseInt(fields[0], 10, 64)
				return n
			}
		}
	}
	return 0
}

func globPaths(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // fails for malformed patterns only
	return paths
}
