//go:build e2e

package e2e

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// addresses are those that dev prints for programs.
type addresses struct {
	Temporal   string `json:"temporal_address"`
	UI         string `json:"ui_address"`
	S3         string `json:"s3_endpoint"`
	DataDir    string `json:"data_dir"`
	OtherUsers bool   `json:"other_users"`
}

func (a addresses) all(t *testing.T) []string {
	t.Helper()
	hosts := []string{a.Temporal}
	for _, raw := range []string{a.UI, a.S3} {
		u, err := url.Parse(raw)
		require.NoError(t, err)
		hosts = append(hosts, u.Host)
	}
	return hosts
}

// serveDev runs dev and returns its addresses.
func (c *e2eCLI) serveDev(args ...string) (*background, addresses) {
	c.t.Helper()
	dev := c.start(append([]string{"dev", "--offline", "--json"}, args...)...)
	dev.prints(c.t, "\n}\n")
	var a addresses
	require.NoError(c.t, json.NewDecoder(strings.NewReader(dev.log.String())).Decode(&a), dev.log.String())
	return dev, a
}

// knocks sends a request from a process of another user and reports whether it gets
// any reply.
func knocks(t *testing.T, uid uint32, address string) bool {
	t.Helper()
	host, port, _ := strings.Cut(address, ":")
	cmd := exec.CommandContext(t.Context(), "bash", "-c", `exec 3<>/dev/tcp/`+host+`/`+port+` && cat >&3 && head -c 5 <&3`)
	cmd.Dir, cmd.Stdin = "/", strings.NewReader("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: uid == 0}}
	reply, _ := cmd.Output() // a refusal is no reply
	return len(reply) > 0
}

func TestDev_keepsOtherUsersOut(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	const nobody = 65534
	c := newCLI(t)
	dev, a := c.serveDev()
	require.False(t, a.OtherUsers)
	for _, address := range a.all(t) {
		require.False(t, knocks(t, nobody, address), address)
		require.True(t, knocks(t, 0, address), address)
	}
	log, err := os.ReadFile(filepath.Join(a.DataDir, "logs", "stack.log"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(log), "refused a connection of user 65534; `conclave dev --allow-other-users`"))

	joined := c.start("dev", "--offline")
	joined.prints(t, "Users       only you and root; --allow-other-users lets everybody on this machine in\n")
	require.NoError(t, joined.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, joined.ends(t))
	second := c.conclave("dev", "--offline", "--allow-other-users")
	require.Equal(t, 1, second.code)
	require.Contains(t, second.stderr, "runs already, for your user only")
	require.NoError(t, dev.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, dev.ends(t))
	c.gone()

	_, a = c.serveDev("--allow-other-users")
	require.True(t, a.OtherUsers)
	for _, address := range a.all(t) {
		require.True(t, knocks(t, nobody, address), address)
	}
}
