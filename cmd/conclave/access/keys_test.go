package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// keysFile writes a file of keys.
func keysFile(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return name
}

// rewrite replaces a file of keys by one that was changed at a time.
func rewrite(t *testing.T, name, content string, at time.Time) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	require.NoError(t, os.Chtimes(name, at, at))
}

func TestKeys(t *testing.T) {
	t.Parallel()
	all, allLine := NewKey(Caller{Name: "ci"})
	limited := Caller{Name: "alice", Teams: []string{"default", "reviewers"}, PerMinute: 30, USDPerDay: 2.5}
	one, oneLine := NewKey(limited)
	require.True(t, strings.HasPrefix(all, "ck-"))
	require.NotContains(t, allLine, all)
	require.True(t, strings.HasSuffix(oneLine, ":default,reviewers:30:2.5"), oneLine)

	keys, err := LoadKeys(keysFile(t, "# the team's keys", "", allLine, "  "+oneLine+"  "))
	require.NoError(t, err)
	require.Equal(t, []string{"alice", "ci"}, keys.Names())
	found, ok := keys.Find(one)
	require.True(t, ok)
	require.Equal(t, limited, found)
	require.True(t, found.MayAsk("reviewers"))
	require.False(t, found.MayAsk("other"))
	found, ok = keys.Find(all)
	require.True(t, ok)
	require.True(t, found.MayAsk("other"))
	for _, wrong := range []string{"", "ck-", one + "x", strings.ToUpper(one)} {
		_, ok = keys.Find(wrong)
		require.False(t, ok, wrong)
	}
}

// A key that is removed from the file is refused without a restart; a fault in the new
// file keeps the previous callers.
func TestKeys_readAgain(t *testing.T) {
	t.Parallel()
	first, firstLine := NewKey(Caller{Name: "first"})
	second, secondLine := NewKey(Caller{Name: "second"})
	name := keysFile(t, firstLine)
	keys, err := LoadKeys(name)
	require.NoError(t, err)
	rewrite(t, name, secondLine, time.Unix(1, 0))
	_, ok := keys.Find(first)
	require.False(t, ok)
	_, ok = keys.Find(second)
	require.True(t, ok)
	rewrite(t, name, "broken", time.Unix(2, 0))
	_, ok = keys.Find(second)
	require.True(t, ok)
	require.NoError(t, os.Remove(name))
	_, ok = keys.Find(second)
	require.False(t, ok, "a file that is gone admits nobody")
}

func TestLoadKeys_refuses(t *testing.T) {
	t.Parallel()
	h := strings.Repeat("0a", 32)
	for want, lines := range map[string][]string{
		"has no key":                           {"# none"},
		":1: the line has 1 fields":            {"alice"},
		":2: the line has 6 fields":            {"#", "a:" + h + ":::1:"},
		`the name "a b" is not made of`:        {"a b:" + h},
		"the key itself must not be":           {"alice:ck-secret"},
		`of alice are "0", not a whole number`: {"alice:" + h + "::0"},
		`of alice are "-1", not a number`:      {"alice:" + h + ":::-1"},
		`of alice are "NaN", not a number`:     {"alice:" + h + ":::NaN"},
		`of alice are "Inf", not a number`:     {"alice:" + h + ":::Inf"},
		":2: the key is that of line 1":        {"alice:" + h, "bob:" + h},
		":2: the name alice is that of line 1": {"alice:" + h, "alice:" + strings.Repeat("0b", 32)},
	} {
		_, err := LoadKeys(keysFile(t, lines...))
		require.ErrorContains(t, err, want)
	}
	_, err := LoadKeys(filepath.Join(t.TempDir(), "none"))
	require.ErrorContains(t, err, "conclave serve key NAME")
}

// The line of a new key is read back as the caller it was made for.
func TestNewKey(t *testing.T) {
	t.Parallel()
	for _, c := range []Caller{
		{Name: "a"},
		{Name: "A.b-c_9", Teams: []string{"default"}},
		{Name: "rate", PerMinute: 1},
		{Name: "money", USDPerDay: 0.05},
		{Name: "all", Teams: []string{"x", "y"}, PerMinute: 600, USDPerDay: 1e6},
		{Name: strings.Repeat("n", 64), Teams: []string{"x"}, USDPerDay: 12.345},
	} {
		key, line := NewKey(c)
		require.NotContains(t, line, key)
		require.False(t, strings.HasSuffix(line, ":"), line)
		keys, err := LoadKeys(keysFile(t, line))
		require.NoError(t, err)
		found, ok := keys.Find(key)
		require.True(t, ok)
		require.Equal(t, c, found)
		again, _ := NewKey(c)
		require.NotEqual(t, key, again)
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"a": true, "7": true, "ci.build-2_x": true, strings.Repeat("x", 64): true,
		"": false, "-a": false, ".a": false, "_a": false, "a b": false, "a:b": false, "é": false, "a\n": false, strings.Repeat("x", 65): false,
	} {
		if err := CheckName(name); valid {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, "letters, digits, dots, dashes and underscores", "%q", name)
		}
	}
}

// Hashes are accepted as sha256sum and other programs print them, and lines as Windows ends them.
func TestLoadKeys_forms(t *testing.T) {
	t.Parallel()
	h := hash("secret")
	for _, line := range []string{"a:" + h, "a:" + strings.ToUpper(h), "\ta:" + h + " \r", "a:" + h + ":", "a:" + h + ":::"} {
		keys, err := LoadKeys(keysFile(t, line))
		require.NoError(t, err, "%q", line)
		c, ok := keys.Find("secret")
		require.True(t, ok, "%q", line)
		require.Equal(t, Caller{Name: "a"}, c)
	}
}

func TestLoadKeys_size(t *testing.T) {
	t.Parallel()
	line := "a:" + hash("secret")
	comment := "#" + strings.Repeat("x", maxKeysFile-len(line)-len("#\n\n"))
	_, err := LoadKeys(keysFile(t, line, comment))
	require.NoError(t, err)
	name := keysFile(t, line, comment+"x")
	_, err = LoadKeys(name)
	require.ErrorContains(t, err, name+" has 1048577 bytes, at most 1048576 are read")
}

// A file that grows beyond the limit keeps the callers that it had.
func TestKeys_growsTooLarge(t *testing.T) {
	t.Parallel()
	key, line := NewKey(Caller{Name: "first"})
	name := keysFile(t, line)
	keys, err := LoadKeys(name)
	require.NoError(t, err)
	rewrite(t, name, strings.Repeat("#", maxKeysFile+1), time.Unix(1, 0))
	found, ok := keys.Find(key)
	require.True(t, ok)
	require.Equal(t, "first", found.Name)
	require.Equal(t, []string{"first"}, keys.Names())
}
