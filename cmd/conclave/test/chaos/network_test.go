//go:build e2e

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// island is a network namespace with one link to this machine. Cutting the link loses packets in
// both directions without closing connections.
type island struct {
	t          *testing.T
	name, link string
	host       string // this machine's address on the link
}

// newIsland makes a network namespace, for which root and the program ip are needed.
func newIsland(t *testing.T) (island, error) {
	t.Helper()
	n := os.Getpid()
	i := island{t: t, name: fmt.Sprintf("conclave-chaos-%d", n), link: fmt.Sprintf("cch%d", n%100000), host: fmt.Sprintf("10.213.%d.1", n%256)}
	inside := fmt.Sprintf("10.213.%d.2", n%256)
	if err := i.ip("netns", "add", i.name); err != nil {
		return i, err
	}
	t.Cleanup(func() { _ = i.ip("netns", "delete", i.name) })
	for _, args := range [][]string{
		{"link", "add", i.link, "type", "veth", "peer", "name", "conclave0", "netns", i.name},
		{"address", "add", i.host + "/24", "dev", i.link},
		{"link", "set", i.link, "up"},
		{"netns", "exec", i.name, "ip", "address", "add", inside + "/24", "dev", "conclave0"},
		{"netns", "exec", i.name, "ip", "link", "set", "conclave0", "up"},
		{"netns", "exec", i.name, "ip", "link", "set", "lo", "up"},
	} {
		if err := i.ip(args...); err != nil {
			return i, err
		}
	}
	t.Cleanup(func() { _ = i.ip("link", "delete", i.link) })
	return i, nil
}

func (i island) ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	return nil
}

// inside is the beginning of a command line that runs in the namespace.
func (i island) inside() []string { return []string{"ip", "netns", "exec", i.name} }

// reach serves an address of this machine to the namespace.
func (i island) reach(address string) string { return forward(i.t, i.host, address) }

// cut takes the link down, and join up again.
func (i island) cut() error  { return i.ip("link", "set", i.link, "down") }
func (i island) join() error { return i.ip("link", "set", i.link, "up") }
