//go:build e2e || bench

package stage

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Postgres is a PostgreSQL server with an empty database cluster owned by the user temporal.
type Postgres struct {
	*Process
	Port int
}

// StartPostgres starts a server on its own data directory. PostgreSQL refuses to run as
// root, so a test of root runs it as the user postgres or nobody.
func StartPostgres(t testing.TB) Postgres {
	t.Helper()
	bin := programPath(t, "POSTGRES_BIN")
	dir, err := os.MkdirTemp("", "stage-postgres-") //nolint:usetesting // only its user may enter the parent of t.TempDir
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	owner := ownerOf(t, dir)
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner, Pdeathsig: syscall.SIGKILL}
		return cmd
	}
	data := filepath.Join(dir, "data")
	out, err := command("initdb", "--pgdata", data, "--username", "temporal", "--auth", "trust", "--no-instructions").CombinedOutput()
	require.NoError(t, err, "initdb: %s", out)
	p := Postgres{Port: freePorts(t, 1)[0]}
	port := strconv.Itoa(p.Port)
	p.Process = startProcess(t, "postgres", func() *exec.Cmd {
		return command("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1",
			"-c", "unix_socket_directories=", "-c", "max_connections=200")
	}, func() error {
		return command("pg_isready", "--quiet", "--host", "127.0.0.1", "--port", port, "--dbname", "postgres", "--username", "temporal").Run()
	})
	return p
}

// ownerOf gives the directory to an unprivileged user if root runs the test.
func ownerOf(t testing.TB, dir string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		who, err = user.Lookup("nobody")
	}
	require.NoError(t, err)
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	require.NoError(t, err)
	require.NoError(t, os.Chown(dir, int(uid), int(gid)))
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
