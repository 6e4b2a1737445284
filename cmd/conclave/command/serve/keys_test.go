package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/cmd/conclave/api/access"
	"conclave/cmd/conclave/api/gateway"
	"conclave/cmd/conclave/cli"
)

// A fault in a running server's keys is reported in one line with its position and the callers
// still admitted.
func TestLoadKeys(t *testing.T) {
	t.Parallel()
	alice, aliceLine := access.NewKey(access.Caller{Name: "alice"})
	bob, bobLine := access.NewKey(access.Caller{Name: "bob"})
	file := filepath.Join(t.TempDir(), "keys")
	writeFile(t, file, aliceLine+"\n"+bobLine+"\n")
	var stderr bytes.Buffer
	keys, err := loadKeys(&cli.CLI{Stderr: &stderr}, file)
	require.NoError(t, err)
	change := func(content string, at int64) {
		stderr.Reset()
		writeFile(t, file, content)
		require.NoError(t, os.Chtimes(file, time.Unix(at, 0), time.Unix(at, 0)))
		_, ok := keys.Find(alice)
		require.False(t, ok)
		_, _ = keys.Find(bob)
	}
	change("garbage\n"+bobLine, 1)
	require.Regexp(t, `^conclave: the keys have changed: .*keys:1: the line has 1 of 2 to 5 fields; .*; admitted now: bob\n$`, stderr.String())
	change(bobLine, 2)
	require.Empty(t, stderr.String())
	change("", 3)
	require.Regexp(t, `^conclave: the keys have changed: .*keys has no key; .*; admitted now: nobody\n$`, stderr.String())

	_, err = loadKeys(nil, file)
	require.ErrorContains(t, err, "has no key")
	none, err := loadKeys(nil, "")
	require.NoError(t, err)
	require.Nil(t, none)
}

func TestWarnOfTeams(t *testing.T) {
	t.Parallel()
	o, _ := keyed(t, access.Caller{Name: "alice", Teams: []string{"default", "nosuchteam"}})
	var stderr bytes.Buffer
	warnOfTeams(&cli.CLI{Stderr: &stderr}, o.Keys, []gateway.Team{gateway.WorkersTeam("default"), gateway.WorkersTeam("reviewers")})
	require.Equal(t, "conclave: the key of alice is for the team \"nosuchteam\", which this server does not offer; its teams are default, reviewers\n", stderr.String())
}
