package sandbox_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
	"conclave/activities/tools"
)

// reaching gives commands a network with one destination.
func reaching(t *testing.T, destination string) func(*sandbox.Options) {
	t.Helper()
	list, err := tools.ParseDestinations([]string{destination})
	require.NoError(t, err)
	return func(o *sandbox.Options) {
		o.Network = sandbox.Network{Reaches: list.String(), Serve: func(socket *os.File) io.Closer {
			p, err := tools.ServeProxy(socket, list)
			if err != nil {
				return nil
			}
			return p
		}}
	}
}

// greeter is a server on the host that greets its clients and reports when a client's connection
// has ended.
func greeter(t *testing.T) (address string, ended <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	gone := make(chan struct{}, 10)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello from the host\n")
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				_ = conn.Close()
				gone <- struct{}{}
			}()
		}
	}()
	return l.Addr().String(), gone
}

// connect is a shell function that asks the proxy for a tunnel and prints the status and the first
// line from the tunnel.
const connect = `
connect() {
	exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n' "$1" >&3
	read -r version status rest <&3; echo "$status"
	if test "$status" = 200; then read -r blank <&3; read -r line <&3; echo "$line"; fi
}
`

func TestNetwork_reachesTheListOnly(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/bash"); err != nil {
		t.Skip("there is no bash")
	}
	server, ended := greeter(t)
	other, _ := greeter(t)
	b := openBox(t, sandbox.Full, reaching(t, server))
	bash := func(script string) string {
		require.NoError(t, os.WriteFile(filepath.Join(b.workspace, "script"), []byte(connect+script), 0o600))
		return b.must(t, "exec bash script")
	}

	require.Equal(t, "200\nhello from the host\n", bash("connect "+server))
	<-ended
	require.Equal(t, "403\n", bash("connect "+other))
	require.Equal(t, "403\n", bash("connect evil.example:443"))
	require.Equal(t, "400\n", bash("connect 0x7f000001:80"))
	host, port, err := net.SplitHostPort(server)
	require.NoError(t, err)
	require.Equal(t, "refused\n", bash(fmt.Sprintf("(exec 4<>/dev/tcp/%s/%s) 2>/dev/null || echo refused", host, port)), "the network has no other way")
	require.Equal(t, "http://127.0.0.1:3128 http://127.0.0.1:3128 localhost,127.0.0.1,::1\n", bash("echo $HTTPS_PROXY $http_proxy $no_proxy"))

	require.Equal(t, "200\nhello from the host\n", bash("connect "+server+"; sleep 600 & true"), "a daemon keeps the connection")
	<-ended // with the command
}

func TestNetwork_withoutAList(t *testing.T) {
	t.Parallel()
	b := openBox(t, sandbox.Full)
	require.Equal(t, "none\n", b.must(t, `echo ${HTTPS_PROXY:-none}`))
}

func TestNetwork_aProgramThatDoesNotStart(t *testing.T) {
	t.Parallel()
	server, _ := greeter(t)
	b := openBox(t, sandbox.Full, reaching(t, server))
	exit, err := b.Run(t.Context(), sandbox.Command{Args: []string{"no-such-program"}})
	require.NoError(t, err)
	require.Equal(t, 127, exit.Code)
}

func TestNetwork_needsLevelFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, level := range []sandbox.Level{sandbox.Landlock, sandbox.Off} {
		o := sandbox.Options{Workspace: dir, Temp: os.TempDir(), Level: level, Host: sandbox.Host{Level: sandbox.Full}}
		reaching(t, "code.example:443")(&o)
		_, err := sandbox.Open(o)
		require.ErrorContains(t, err, "only level full can limit it to a list", level)
	}
}
