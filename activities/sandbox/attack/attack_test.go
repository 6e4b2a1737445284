//go:build linux

package attack_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
	"conclave/activities/sandbox/attack"
)

// The attacks run one after the other: they watch what the host as a whole uses. The
// names are short because they are part of the paths of Unix sockets.

func TestFull(t *testing.T) { stopped(t, self, sandbox.Full) }

func TestLandlock(t *testing.T) { stopped(t, self, sandbox.Landlock) }

// What is another thing for an ordinary user than for root.
const perUser = `parent_environ inherited_fd read_hostfile overwrite_outside peers_write kill_host readmem_host
	kill_supervisor supervisor_mem forkbomb threadbomb mem_multi disk_many disk_unlinked disk_mapped disk_sent daemon userns caps`

func TestFullOfAnyUser(t *testing.T) { stopped(t, nobody, sandbox.Full, strings.Fields(perUser)...) }

func TestLandlockOfAnyUser(t *testing.T) {
	stopped(t, nobody, sandbox.Landlock, strings.Fields(perUser)...)
}

// stopped demands that a level keeps what it promises; full promises everything.
func stopped(t *testing.T, u user, level sandbox.Level, only ...string) {
	t.Helper()
	for _, r := range carryOut(t, u, level, only...) {
		require.False(t, r.Failed(), "%s: %s: %s", r.Name, r.Outcome, r.Detail)
		require.NotEmpty(t, r.Detail, "%s: what stopped it, or why it was not tried", r.Name)
		if level == sandbox.Full {
			require.Empty(t, r.Known, "level full promises to stop %s", r.Name)
		}
	}
}

// A judge that could not see success would say that everything is stopped.
func TestOff(t *testing.T) {
	for _, r := range carryOut(t, self, sandbox.Off, strings.Fields(`read_hostfile symlink_read symlink_write rename_in
		write_outside overwrite_outside truncate_outside chmod_outside stat_outside write_tmp peers_write tcp udp tcp_listen
		unix_path unix_abstract kill_host renice_host kill_supervisor forkbomb mem10g mem_multi disk_unlinked disk_sent`)...) {
		require.False(t, r.Failed(), "level off promises nothing")
		if r.Outcome == attack.NotTried {
			continue // bombs need a host with room for them
		}
		require.Equal(t, attack.Open, r.Outcome, "%s works without a sandbox: %s", r.Name, r.Detail)
	}
}

func TestTheListIsWhole(t *testing.T) {
	t.Parallel()
	names := attack.Names()
	for _, name := range strings.Fields(`env_secret parent_environ inherited_fd read_hostfile read_shadow proc_root
		symlink_read symlink_write hardlink rename_in write_outside overwrite_outside truncate_outside chmod_outside
		stat_outside tcp mptcp udp tcp_listen raw_socket unix_path unix_abstract kill_host ptrace_host readmem_host
		renice_host forkbomb mem10g mem_multi disk disk_many daemon daemon_hold mount chroot userns rawdisk procsys
		cgroup_escape io_uring bpf keyctl caps`) {
		require.Contains(t, names, name)
	}
	seen := map[string]bool{}
	for _, name := range names {
		require.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
	}
}

func TestWhatIsKnownIsDocumented(t *testing.T) {
	t.Parallel()
	inside, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	outside, err := os.ReadFile("../../../docs/sandbox.md")
	require.NoError(t, err)
	for _, name := range attack.KnownAtLandlock() {
		require.Contains(t, string(inside), "//   - "+name+":")
		require.Contains(t, string(outside), "`"+name+"`")
	}
}

func TestNothingRunsThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	_, err := attack.Run(t.Context(), attack.Options{Dir: nowhere, Host: sandbox.Host{Level: sandbox.Full}, Only: []string{"tcp", "sneeze"}})
	require.ErrorContains(t, err, `no attack "sneeze"; there are: env_secret, `)
	_, err = attack.Run(t.Context(), attack.Options{Dir: nowhere, Host: sandbox.Host{Level: sandbox.Landlock, Missing: []string{"user namespaces are off"}}})
	var less *sandbox.LevelError
	require.ErrorAs(t, err, &less)
	require.Equal(t, []string{"user namespaces are off"}, less.Missing)
	_, err = attack.Run(t.Context(), attack.Options{Dir: nowhere, Host: sandbox.Host{Level: sandbox.Full}, Level: "strong"})
	require.ErrorContains(t, err, "full, landlock and off")
}

// user is who runs the attacks.
type user int

const (
	self   user = -1
	nobody user = 65534
)

// carryOut runs attacks, all if none is named, in a process of its own.
func carryOut(t *testing.T, u user, level sandbox.Level, only ...string) []attack.Result {
	t.Helper()
	if testing.Short() {
		t.Skip("the attacks take a minute")
	}
	if u != self && os.Geteuid() != 0 {
		t.Skip("only root can become another user; the other tests are an ordinary user's")
	}
	t.Setenv("TMPDIR", "/var/tmp") // what lies in /tmp is not seen in a sandbox
	dir := t.TempDir()
	program := filepath.Join(dir, "judge")
	prepare(t, program)
	cmd := exec.CommandContext(t.Context(), program, append([]string{judgeCommand, dir, string(level)}, only...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir}
	if u != self {
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o711))
		require.NoError(t, os.Chown(dir, int(u), int(u)))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u), Gid: uint32(u)}}
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(t, err, errs.String())
	var j judged
	require.NoError(t, json.Unmarshal(out, &j))
	if j.Results == nil {
		t.Skipf("this host gives the level %s only: %s", j.Host.Level, strings.Join(j.Host.Missing, "; "))
	}
	if len(only) == 0 {
		only = attack.Names()
	}
	require.Len(t, j.Results, len(only))
	left, err := filepath.Glob(filepath.Join(dir, "attack*"))
	require.NoError(t, err)
	require.Empty(t, left, "what the attacks made is removed")
	report(t, level, j)
	return j.Results
}

// report logs what happened, for -v.
func report(t *testing.T, level sandbox.Level, j judged) {
	t.Helper()
	var b strings.Builder
	for _, r := range j.Results {
		fmt.Fprintf(&b, "%-10s %-20s %4.1f s  %s\n", r.Outcome, r.Name, r.Seconds, r.Detail)
	}
	t.Logf("level %s on %+v\n%s", level, j.Host, b.String())
}

// prepare makes a copy of this test's program that any user can run. The race
// detector reserves more memory than any limit allows: with it, the program is
// built again, without.
func prepare(t *testing.T, program string) {
	t.Helper()
	if raced {
		out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, ".").CombinedOutput()
		require.NoError(t, err, string(out))
		return
	}
	own, err := os.Executable()
	require.NoError(t, err)
	in, err := os.Open(own)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
