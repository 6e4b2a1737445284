//go:build linux

package attack

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"conclave/activities/sandbox"
)

// scene is what one attack finds: directories on the host, a worker's workspace,
// and whatever the attack's own plant puts there. It is the judge's.
type scene struct {
	base   string // contains everything below
	ws     string // the workspace
	temp   string
	secret string
	target target
	limits sandbox.Limits
	level  sandbox.Level

	worker   *exec.Cmd // started after planting
	terminal *os.File  // of the worker, if the attack is on that
	master   int       // the other side of it
	files    []*os.File
	victim   *victim
	arrived  atomic.Bool // something reached a listener of the host, or a listener of the attacker
	peak     int64       // the most that was seen of what a bomb takes
	before   int64       // the same before the attack
	cleanup  []func()
}

// notTried is why an attack cannot be tried here.
type notTried struct{ why string }

func (n *notTried) Error() string { return n.why }

func skip(format string, args ...any) error { return &notTried{fmt.Sprintf(format, args...)} }

// names of the files in the directory beside the workspace.
const (
	secretName = "secret.txt"
	preyName   = "prey.txt"
	preyText   = "This file belongs to the host.\n"
)

// newScene makes the directories and files that all attacks find.
func newScene(base string, level sandbox.Level, a attack) (*scene, error) {
	s := &scene{
		base: base, ws: filepath.Join(base, "ws"), temp: filepath.Join(base, "tmp"), level: level,
		secret: "sk-attack-" + token(), limits: standardLimits(),
	}
	if a.limits != nil {
		a.limits(&s.limits)
	}
	outside := filepath.Join(base, "outside")
	s.target = target{
		Name: a.name, Token: token(), Outside: outside,
		Secret: filepath.Join(outside, secretName), Prey: filepath.Join(outside, preyName),
	}
	peer := filepath.Join(s.ws, peers, "agent1")
	for _, dir := range []string{outside, s.temp, peer} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("make the scene of an attack: %w", err)
		}
	}
	// Everybody may do anything with them, so that only the sandbox stops an
	// attacker that runs as another user.
	err := errors.Join(
		os.Chmod(base, 0o711), os.Chmod(outside, 0o777),
		os.WriteFile(s.target.Secret, []byte(s.secret+"\n"), 0o600), os.Chmod(s.target.Secret, preyMode),
		os.WriteFile(s.target.Prey, []byte(preyText), 0o600), os.Chmod(s.target.Prey, preyMode),
		os.WriteFile(filepath.Join(peer, preyName), []byte(preyText), 0o600), os.Chmod(filepath.Join(peer, preyName), preyMode),
	)
	if err != nil {
		return nil, fmt.Errorf("make the scene of an attack: %w", err)
	}
	return s, nil
}

// standardLimits are small, so that bombs are cheap.
func standardLimits() sandbox.Limits {
	return sandbox.Limits{
		Time: 10 * time.Second, CPU: 20 * time.Second, Memory: 256 << 20, Processes: 64,
		Disk: 64 << 20, Files: 2000, Output: 1 << 20,
	}
}

// later registers what ends with the scene; the last comes first.
func (s *scene) later(f func()) { s.cleanup = append(s.cleanup, f) }

// clear ends everything that the attack or its plant left behind. Only processes
// of this scene are killed: its victim, and those that carry its token.
func (s *scene) clear() error {
	for range 100 { // some start successors
		left := tokenProcesses(s.target.Token)
		if len(left) == 0 {
			break
		}
		for _, p := range left {
			p.kill()
		}
	}
	for i := len(s.cleanup) - 1; i >= 0; i-- {
		s.cleanup[i]()
	}
	for _, f := range s.files {
		f.Close()
	}
	if s.victim != nil {
		s.victim.end()
	}
	if err := os.RemoveAll(s.base); err != nil {
		return fmt.Errorf("remove the scene of an attack: %w", err)
	}
	return nil
}

// token is 32 hexadecimal digits of chance.
func token() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// listen takes connections and notes that one came.
func (s *scene) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	s.later(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.arrived.Store(true)
			_ = c.Close() // it came: that is all
		}
	}()
	return l, nil
}

// receive takes datagrams and notes that one came.
func (s *scene) receive(network, address string) (net.PacketConn, error) {
	c, err := net.ListenPacket(network, address)
	if err != nil {
		return nil, err
	}
	s.later(func() { _ = c.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			if _, _, err := c.ReadFrom(buf); err != nil {
				return
			}
			s.arrived.Store(true)
		}
	}()
	return c, nil
}

// arrival waits a moment for what is under way.
func (s *scene) arrival() bool {
	for range 10 {
		if s.arrived.Load() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}
