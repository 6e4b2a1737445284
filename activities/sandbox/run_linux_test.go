package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/activities/sandbox"
)

// work is a script that needs a program of the host; only names its level if there is one.
type work struct {
	name, program, script string
	only                  sandbox.Level
}

func TestRun_ordinaryWork(t *testing.T) {
	t.Parallel()
	carryOut(t, []work{
		{name: "shell", program: "sh", script: `
			printf 'b\na\n' | sort > list && test "$(head -n1 list)" = a
			for i in 1 2 3; do (echo $i > part$i) & done; wait; cat part1 part2 part3
			head -c 100 /dev/urandom > random && cp random /dev/null && rm random part?
			f=$(mktemp) && echo x > $f && mv $f here && ln -s here link && cat link
			mkdir -p a/b && mv a/b c && rmdir a c && chmod 755 here && touch -d 2020-01-01 here
			echo out > /dev/stdout; echo err > /dev/stderr; id -u`},
		{name: "bash", program: "bash", script: `exec bash -c 'set -e; diff <(echo a) <(echo a); read x <<< text; test $x = text'`},
		{name: "git", program: "git", script: `
			git config --global user.email a@example.com && git config --global user.name a
			git init -q repo && cd repo && echo x > f && git add f && git commit -qm one && git checkout -qb other
			echo y >> f && git commit -qam two && git log --oneline | wc -l | grep -q 2
			git clone -q . ../copy && cd ../copy && git gc -q && git fsck`},
		{name: "make", program: "make", script: `
			printf 'all: x y\nx y:\n\techo $@ > $@\n' > Makefile && make -j2 && cat x y`},
		{name: "python", program: "/usr/bin/python3", script: `
			/usr/bin/python3 -m venv --without-pip env && . env/bin/activate
			python -c 'import sys,ssl,sqlite3,subprocess,threading; assert sys.prefix.endswith("env"); subprocess.run(["true"],check=True)'
			python -c 'import concurrent.futures as c; print(sum(c.ThreadPoolExecutor(4).map(int,"1234")))'`},
		{name: "python processes", program: "/usr/bin/python3", only: sandbox.Full, script: `
			printf 'import multiprocessing as m\nif __name__=="__main__":\n  print(sum(m.Pool(2).map(int,"123")))\n' > p.py
			/usr/bin/python3 p.py | grep 6`},
		{name: "a local server", program: "/usr/bin/python3", only: sandbox.Full, script: `
			/usr/bin/python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &
			/usr/bin/python3 -c '
import urllib.request,time
for i in range(100):
  try:
    print(urllib.request.urlopen("http://localhost:8123/").status); break
  except OSError: time.sleep(0.05)
else: raise SystemExit(1)'`},
		{name: "node", program: "node", script: `
			printf 'const c=require("child_process"),fs=require("fs");fs.writeFileSync("n",c.execFileSync("echo",["hi"]));console.log(require("os").cpus().length)' > a.js
			node a.js && grep hi n`},
		{name: "perl", program: "perl", script: `perl -e 'open(F,">p");print F "x";close F;print -s "p"' | grep 1`},
	})
}

// carryOut runs each script at each level of this host.
func carryOut(t *testing.T, tests []work) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			needs(t, test.program)
			perLevel(t, func(t *testing.T, level sandbox.Level) {
				if test.only != "" && test.only != level {
					t.Skipf("level %s does not allow it", level)
				}
				b := openBox(t, level, limitedTo(sandbox.Limits{Memory: 4 << 30, Processes: 512, Disk: 2 << 30, Files: 100_000, Output: 1 << 20}))
				b.must(t, "set -e\n"+test.script)
			})
		})
	}
}

// needs skips the test without a program of the system.
func needs(t *testing.T, program string) {
	t.Helper()
	for _, dir := range []string{"", "/usr/bin", "/bin", "/usr/local/bin", "/usr/local/go/bin"} {
		if dir == "" && !filepath.IsAbs(program) {
			continue
		}
		if _, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return
		}
	}
	t.Skipf("%s is not installed", program)
}

func TestSandbox_keepsTheTemporaryDirectory(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level)
		b.must(t, `echo kept > $TMPDIR/file && echo kept > $HOME/file`)
		require.Equal(t, "kept\nkept\n", b.must(t, `cat $TMPDIR/file $HOME/file`))
		require.NoError(t, b.Close())
		left, err := os.ReadDir(b.temp)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

func TestSandbox_workerCanReadAndRemoveFiles(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		b := openBox(t, level)
		b.must(t, `mkdir -p shut/inner readonly && echo text > shut/inner/file && echo text > readonly/file && echo text > secret
			chmod 000 secret shut/inner/file shut/inner shut; chmod 555 readonly
			mkdir $HOME/cache && echo x > $HOME/cache/x && chmod 000 $HOME/cache`)
		for _, name := range []string{"secret", "shut/inner/file", "readonly/file"} {
			path := filepath.Join(b.workspace, name)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, "text\n", string(data))
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.NotZero(t, info.Mode()&0o400)
			require.Equal(t, os.Geteuid(), owner(t, path), "files belong to the worker")
		}
		require.NoError(t, os.WriteFile(filepath.Join(b.workspace, "mine"), []byte("from the worker"), 0o600))
		require.Equal(t, "from the worker", b.must(t, `cat mine && echo changed > mine`)[:15])
		require.NoError(t, b.Close())
		require.NoError(t, os.RemoveAll(filepath.Join(b.workspace, "shut")))
	})
}

func TestSandbox_toolchains(t *testing.T) {
	t.Parallel()
	perLevel(t, func(t *testing.T, level sandbox.Level) {
		chain := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(chain, "bin"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(chain, "bin", "hammer"), []byte("#!/bin/sh\necho bang\n"), 0o755))
		require.NoError(t, os.Chmod(chain, 0o755))
		b := openBox(t, level, func(o *sandbox.Options) { o.Toolchains = []string{chain} })
		require.Equal(t, "bang\n", b.must(t, "hammer"))
		_, out := b.sh(t, "echo x > "+filepath.Join(chain, "new")+"; echo x >> "+filepath.Join(chain, "bin", "hammer"))
		require.NotEmpty(t, out)
		require.NoFileExists(t, filepath.Join(chain, "new"))
		require.Equal(t, "bang\n", b.must(t, "hammer"))
	})
}

// A worker that is killed while it probes the host leaves a directory, which the next probe removes.
func TestProbe_removesWhatAKilledProbeLeft(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	require.NoError(t, os.MkdirAll(filepath.Join(temp, "sandbox-probe-123", "workspace"), 0o700))
	sandbox.Probe(t.Context())
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
}
