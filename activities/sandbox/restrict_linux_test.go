package sandbox_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

func TestReadOnly_protectsParts(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level, func(o *sandbox.Options) {
			o.ReadOnly = []string{"peers", "not-there"}
			require.NoError(t, os.MkdirAll(filepath.Join(o.Workspace, "peers", "a"), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(o.Workspace, "peers", "a", "answer"), []byte("theirs"), 0o644))
		})
		if level == sandbox.Landlock && os.Geteuid() != 0 {
			t.Log("the permission to write is taken away; giving it back is open at this level")
		}
		require.Equal(t, "theirs", b.must(t, "cat peers/a/answer"))
		_, out := b.sh(t, `echo mine > peers/a/answer; rm -f peers/a/answer; echo x > peers/new; mkdir peers/a/sub`)
		require.NotEmpty(t, out)
		if level == sandbox.Full {
			b.sh(t, `chmod -R u+w peers; echo mine > peers/a/answer; mv peers away; rm -rf peers; mkdir peers`)
		}
		data, err := os.ReadFile(filepath.Join(b.workspace, "peers", "a", "answer"))
		require.NoError(t, err)
		require.Equal(t, "theirs", string(data))
		require.NoFileExists(t, filepath.Join(b.workspace, "peers", "new"))
		require.NoFileExists(t, filepath.Join(b.workspace, "away"))
		info, err := os.Stat(filepath.Join(b.workspace, "peers", "a", "answer"))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o644), info.Mode(), "the worker has its permissions back")
	})
}

func TestReadOnly_doesNotFollowLinks(t *testing.T) {
	t.Parallel()
	b := openBox(t, sandbox.Full, func(o *sandbox.Options) {
		o.ReadOnly = []string{"peers"}
		require.NoError(t, os.Symlink("/etc", filepath.Join(o.Workspace, "peers")))
	})
	b.must(t, "true")
}

func TestEnvironment_hasNoVariableOfTheWorker(t *testing.T) {
	const secret = "in-the-worker's-environment"
	t.Setenv("PROVIDER_KEY", secret)
	for _, level := range append(confining(t), sandbox.Off) {
		t.Run(string(level), func(t *testing.T) {
			b := openBox(t, level)
			out := b.must(t, "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true")
			if level == sandbox.Off {
				out = b.must(t, "env") // it can look at other processes
			}
			require.NotContains(t, out, secret)
			require.NotContains(t, out, "PROVIDER_KEY")
			for _, name := range []string{"PATH=", "HOME=", "TMPDIR=", "LANG="} {
				require.Contains(t, out, name)
			}
		})
	}
}

func TestEnvironment_ofACommand(t *testing.T) {
	t.Parallel()
	b := openBox(t, sandbox.Off)
	var out strings.Builder
	_, err := b.Run(t.Context(), sandbox.Command{
		Args: []string{"/bin/sh", "-c", "echo $CI $LANG"}, Env: map[string]string{"CI": "true", "LANG": "C"}, Stdout: &out,
	})
	require.NoError(t, err)
	require.Equal(t, "true C\n", out.String())
}

func TestRun_nothingElseIsInReach(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		secret := filepath.Join(t.TempDir(), "secret")
		require.NoError(t, os.WriteFile(secret, []byte("private"), 0o644))
		b := openBox(t, level)
		worker := strconv.Itoa(os.Getpid())
		for _, script := range []string{
			"cat " + secret,
			"echo x >> " + secret,
			"cat /etc/shadow",
			"cat /proc/" + worker + "/environ",
			"ls /proc/" + worker + "/fd",
			"ls /proc/1/fd",
			"cat /proc/1/environ",
			"cat < /proc/1/mem",
			"ln -s " + secret + " link && cat link",
			"ln " + secret + " hard && cat hard",
			"ls /root/.ssh",
			"echo x > /usr/made",
			"echo x > /proc/sys/kernel/core_pattern",
			"unshare -U true",
			"mount -t tmpfs none /tmp",
			"chmod u+s $(mktemp)",
			"ls /dev/pts",
		} {
			exit, out := b.sh(t, script)
			require.NotZero(t, exit.Code, "%s: %s", script, out)
			require.NotContains(t, out, "private")
		}
		data, err := os.ReadFile(secret)
		require.NoError(t, err)
		require.Equal(t, "private", string(data))
		// The standard three descriptors and the one that lists them.
		if level == sandbox.Full {
			require.Equal(t, "0\n1\n2\n3\n", b.must(t, "exec ls /proc/self/fd"))
			require.Equal(t, "lo:", strings.Fields(b.must(t, "tail -n +3 /proc/net/dev"))[0])
		}
	})
}
