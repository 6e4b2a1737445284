package attack

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

// all is the table and the attacks that only the tests try.
func all() []attack {
	return slices.Concat(
		table, secretAttacks(), fileAttacks(), attributeAttacks(), networkAttacks(), socketAttacks(), processAttacks(), memoryAttacks(),
		supervisorAttacks(), processBombs(), memoryBombs(), diskBombs(), kernelAttacks(), systemCallAttacks(),
	)
}

// The attacks run one after the other: they watch the resources of the whole host. The names of these
// tests are short because they are part of the paths of Unix sockets.

func TestFull(t *testing.T) { requireStopped(t, self, sandbox.Full) }

func TestLandlock(t *testing.T) { requireStopped(t, self, sandbox.Landlock) }

// perUser is the attacks that differ between an ordinary user and root.
const perUser = `parent_environ inherited_fd read_hostfile overwrite_outside peers_write kill_host readmem_host
	kill_supervisor supervisor_mem forkbomb threadbomb mem_multi disk_many disk_unlinked disk_mapped disk_sent daemon userns caps`

func TestFullOfAnyUser(t *testing.T) {
	requireStopped(t, nobody, sandbox.Full, strings.Fields(perUser)...)
}

func TestLandlockOfAnyUser(t *testing.T) {
	requireStopped(t, nobody, sandbox.Landlock, strings.Fields(perUser)...)
}

// requireStopped requires that a level stops every attack that it promises to stop.
func requireStopped(t *testing.T, u user, level sandbox.Level, only ...string) {
	t.Helper()
	for _, r := range carryOut(t, u, level, only...) {
		require.False(t, r.Failed(), "%s: %s: %s", r.Name, r.Outcome, r.Detail)
		require.NotEmpty(t, r.Detail, "%s: a reason for its outcome", r.Name)
		if level == sandbox.Full {
			require.Empty(t, r.Known, "level full promises to stop %s", r.Name)
		}
	}
}

// A judge that cannot see success would report every attack as stopped.
func TestOff(t *testing.T) {
	for _, r := range carryOut(t, self, sandbox.Off, strings.Fields(`read_hostfile symlink_read symlink_write rename_in
		write_outside make_outside overwrite_outside truncate_outside delete_outside chmod_outside stat_outside stat_outside_size
		write_tmp peers_write tcp udp tcp_listen unix_path unix_dgram unix_abstract kill_host kill_host_thread kill_host_pidfd
		renice_host kill_supervisor forkbomb mem10g mem_multi disk_unlinked disk_sent`)...) {
		require.False(t, r.Failed(), "level off promises nothing")
		if r.Outcome == notTried {
			continue // bombs need a host with room for them
		}
		require.Equal(t, open, r.Outcome, "%s works without a sandbox: %s", r.Name, r.Detail)
	}
}

func TestEveryAttackIsListedOnce(t *testing.T) {
	t.Parallel()
	listed := attackNames(all())
	for _, name := range strings.Fields(`env_secret parent_environ inherited_fd read_hostfile read_shadow proc_root
		symlink_read symlink_write hardlink rename_in write_outside overwrite_outside truncate_outside chmod_outside
		stat_outside tcp mptcp udp tcp_listen raw_socket unix_path unix_abstract kill_host ptrace_host readmem_host
		renice_host forkbomb mem10g mem_multi disk disk_many daemon daemon_hold mount chroot userns rawdisk procsys
		cgroup_escape io_uring bpf keyctl caps`) {
		require.Contains(t, listed, name)
	}
	slices.Sort(listed)
	require.Equal(t, slices.Compact(slices.Clone(listed)), listed, "no name stands twice")
}

func TestKnownGapsAreDocumented(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../docs/sandbox.md")
	require.NoError(t, err)
	for _, a := range all() {
		if a.known != "" {
			name := strings.TrimSuffix(a.name, "_size") // a second way to use the same gap
			require.Contains(t, string(docs), "`"+name+"`")
		}
	}
}

func TestDocumentationCountsTheAttacks(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../docs/sandbox.md")
	require.NoError(t, err)
	require.Contains(t, string(docs), fmt.Sprintf("%d attacks", len(table)))
}

func TestRunRefusesBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]Options{
		`no attack "sneeze"; there are: env_secret, `: {Level: sandbox.Full, Host: sandbox.Host{Level: sandbox.Full}, Only: []string{"tcp", "sneeze"}},
		"user namespaces are off":                     {Level: sandbox.Full, Host: sandbox.Host{Level: sandbox.Landlock, Missing: []string{"user namespaces are off"}}},
		"full, landlock, off":                         {Level: "strong", Host: sandbox.Host{Level: sandbox.Full}},
	} {
		dir, err := os.MkdirTemp("/var/tmp", "refused") //nolint:usetesting // a path short enough for sockets
		require.NoError(t, err)
		o.Each = func(r Result) { require.Fail(t, "an attack ran", r.Name) }
		_, err = runAttacks(t.Context(), all(), o, dir)
		require.ErrorContains(t, err, want)
		require.NoError(t, os.Remove(dir), "it is empty")
		if o.Host.Missing != nil {
			var refused *sandbox.LevelError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, o.Host.Missing, refused.Missing)
		}
	}
}

// user is the user who runs the attacks.
type user int

const (
	self   user = -1
	nobody user = 65534
)

// carryOut runs the named attacks, or all of them, in a separate process.
func carryOut(t *testing.T, u user, level sandbox.Level, only ...string) []Result {
	t.Helper()
	if testing.Short() {
		t.Skip("the attacks take a minute")
	}
	if u != self && os.Geteuid() != 0 {
		t.Skip("only root can become another user; the other tests are an ordinary user's")
	}
	t.Setenv("TMPDIR", "/var/tmp") // files in /tmp are invisible in a sandbox
	dir := t.TempDir()
	program := filepath.Join(dir, "judge")
	copyJudge(t, program)
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
		t.Skipf("this host gives only level %s: %s", j.Host.Level, strings.Join(j.Host.Missing, "; "))
	}
	if len(only) == 0 {
		only = attackNames(all())
	}
	require.Len(t, j.Results, len(only))
	left, err := filepath.Glob(filepath.Join(dir, "attack*"))
	require.NoError(t, err)
	require.Empty(t, left, "the files of the attacks are removed")
	logResults(t, level, j)
	return j.Results
}

func logResults(t *testing.T, level sandbox.Level, j judged) {
	t.Helper()
	var b strings.Builder
	for _, r := range j.Results {
		fmt.Fprintf(&b, "%-10s %-20s %4.1f s  %s\n", r.Outcome, r.Name, r.Seconds, r.Detail)
	}
	t.Logf("level %s on %+v\n%s", level, j.Host, b.String())
}

// copyJudge makes a copy of this binary that any user can run.
func copyJudge(t *testing.T, program string) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector reserves more memory than any limit allows; make test runs the attacks without it")
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
