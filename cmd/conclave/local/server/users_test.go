package server

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"conclave/cmd/conclave/local"

	"github.com/stretchr/testify/require"
)

// nobody is a user without rights.
const nobody = 65534

// request sends an HTTP request from a process of another user, and returns the
// beginning of the reply; a gRPC server answers with its settings.
func request(t *testing.T, uid uint32, address netip.AddrPort) (reply string, err error) {
	t.Helper()
	// cat writes its input at once: a gRPC server hangs up after the first line.
	script := fmt.Sprintf(`exec 3<>/dev/tcp/%s/%d && cat >&3 && head -c 5 <&3`, address.Addr(), address.Port())
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Stdin = strings.NewReader("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, NoSetGroups: uid == 0}}
	out, err := cmd.Output()
	return string(out), err
}

func TestStack_admitsItsUserAlone(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	lease := join(t, t.TempDir(), local.Options{})
	require.False(t, lease.Stack.OtherUsers)
	for range 2 {
		for _, address := range listening(t, lease.Stack.PID) {
			reply, err := request(t, nobody, address)
			require.Error(t, err, address)
			require.Empty(t, reply, address)
			reply, err = request(t, 0, address)
			require.NoError(t, err, address)
			require.NotEmpty(t, reply, address)
		}
	}
	requireHealthy(t, lease.Stack)
	log, err := os.ReadFile(lease.Stack.LogFile)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(log), "refused a connection of user 65534"), "once a user")
	require.Contains(t, string(log), "conclave dev --allow-other-users")
}

func TestStack_admitsOtherUsersOnPurpose(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	dir := t.TempDir()
	stack := join(t, dir, local.Options{OtherUsers: true}).Stack
	require.True(t, stack.OtherUsers)
	requireHealthy(t, stack)
	public := map[uint16]bool{uint16(stack.Ports.Temporal): true, uint16(stack.Ports.UI): true, uint16(stack.Ports.S3): true}
	for _, address := range listening(t, stack.PID) {
		reply, err := request(t, nobody, address)
		if public[address.Port()] {
			require.NoError(t, err, address)
			require.NotEmpty(t, reply, address)
		} else {
			require.Error(t, err, "%s is internal", address)
		}
	}
	joined, err := local.Join(t.Context(), dir, local.Options{})
	require.NoError(t, err)
	require.True(t, joined.Stack.OtherUsers, "the record says it")
	require.NoError(t, joined.Release())
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
}
