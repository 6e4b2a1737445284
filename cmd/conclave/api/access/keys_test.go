package access

import (
	"os"
	"path/filepath"
	"slices"
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
	require.Equal(t, []Caller{limited, {Name: "ci"}}, keys.Callers())
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

// A changed file admits the keys of its valid lines and no other, and each fault is reported once.
func TestKeys_readAgain(t *testing.T) {
	t.Parallel()
	ann, annLine := NewKey(Caller{Name: "ann"})
	bob, bobLine := NewKey(Caller{Name: "bob"})
	_, other := NewKey(Caller{Name: "ann"})
	for name, tc := range map[string]struct {
		content  string
		admitted []string
		fault    string
	}{
		"unchanged":            {annLine + "\n" + bobLine, []string{ann, bob}, ""},
		"a line is removed":    {bobLine, []string{bob}, ""},
		"a line is added":      {annLine + "\n" + bobLine + "\nci:" + hashKey("x"), []string{ann, bob, "x"}, ""},
		"emptied":              {"", nil, "keys has no key; `conclave serve key NAME >> "},
		"only a comment":       {"# none", nil, "keys has no key"},
		"removed with a fault": {"garbage\n" + bobLine, []string{bob}, "keys:1: the line has 1 of 2 to 5 fields; a line is name:sha256"},
		"two faults":           {annLine + "\ngarbage\n" + annLine, []string{ann}, "keys:2: the line has 1 of 2 to 5 fields; a line is " + format + " (2 lines are faulty)"},
		"a name given twice":   {annLine + "\n" + other, []string{ann}, "keys:2: the name ann is that of line 1"},
		"only a fault":         {"garbage", nil, "keys:1: the line has 1"},
		"too large":            {annLine + "\n" + strings.Repeat("#", maxKeysFile), nil, "at most 1048576 are read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := keysFile(t, annLine, bobLine)
			keys, faults := watched(t, file)
			for i := range 2 {
				rewrite(t, file, tc.content, time.Unix(int64(i+1), 0))
				for _, key := range []string{ann, bob, "x"} {
					_, ok := keys.Find(key)
					require.Equal(t, slices.Contains(tc.admitted, key), ok)
				}
				require.Len(t, keys.Callers(), len(tc.admitted))
			}
			if tc.fault == "" {
				require.Empty(t, *faults)
				return
			}
			require.Len(t, *faults, 1)
			require.Contains(t, (*faults)[0], tc.fault)
		})
	}
}

// watched reads a file of keys, and collects the faults of its changes.
func watched(t *testing.T, file string) (*Keys, *[]string) {
	t.Helper()
	keys, err := LoadKeys(file)
	require.NoError(t, err)
	var faults []string
	keys.Faulty = func(err error) { faults = append(faults, err.Error()) }
	return keys, &faults
}

// A rotation may keep the size and the time of the file, as rsync -t, cp -p and the volume of a
// ConfigMap do.
func TestKeys_rotatedWithTheSameSizeAndTime(t *testing.T) {
	t.Parallel()
	old, oldLine := NewKey(Caller{Name: "ann"})
	current, currentLine := NewKey(Caller{Name: "ann"})
	require.Len(t, currentLine, len(oldLine))
	file := keysFile(t, oldLine)
	at := time.Unix(1, 0)
	require.NoError(t, os.Chtimes(file, at, at))
	for name, rotate := range map[string]func(){
		"in place": func() { rewrite(t, file, currentLine+"\n", at) },
		"renamed": func() {
			rewrite(t, file+".new", currentLine+"\n", at)
			require.NoError(t, os.Rename(file+".new", file))
		},
	} {
		rewrite(t, file, oldLine+"\n", at)
		keys, _ := watched(t, file)
		rotate()
		_, ok := keys.Find(old)
		require.False(t, ok, name)
		_, ok = keys.Find(current)
		require.True(t, ok, name)
	}
}

// A file that cannot be read admits nobody until it can.
func TestKeys_unreadable(t *testing.T) {
	t.Parallel()
	key, line := NewKey(Caller{Name: "ann"})
	file := keysFile(t, line)
	keys, faults := watched(t, file)
	admits := func() bool {
		_, ok := keys.Find(key)
		return ok
	}
	require.NoError(t, os.Rename(file, file+".away"))
	require.False(t, admits())
	require.False(t, admits())
	require.NoError(t, os.Mkdir(file, 0o700))
	require.False(t, admits())
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Rename(file+".away", file))
	require.True(t, admits())
	require.Len(t, *faults, 2)
	require.Contains(t, (*faults)[0], "no such file or directory; name a file that this user can read")
	require.Contains(t, (*faults)[1], "keys is not a regular file")
}

// The loss of the right to read the file does not change its time or its size.
func TestKeys_forbidden(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	key, line := NewKey(Caller{Name: "ann"})
	file := keysFile(t, line)
	keys, faults := watched(t, file)
	require.NoError(t, os.Chmod(file, 0))
	_, ok := keys.Find(key)
	require.False(t, ok)
	require.Contains(t, (*faults)[0], "permission denied")
	require.NoError(t, os.Chmod(file, 0o600))
	_, ok = keys.Find(key)
	require.True(t, ok)
}

func TestLoadKeys_refuses(t *testing.T) {
	t.Parallel()
	h := strings.Repeat("0a", 32)
	for want, lines := range map[string][]string{
		"has no key":                                              {"# none"},
		":1: the line has 1 of 2 to 5 fields":                     {"alice"},
		":2: the line has 6 of 2 to 5 fields":                     {"#", "a:" + h + ":::1:"},
		`the name "a b" is not made of`:                           {"a b:" + h},
		"the key itself must not be":                              {"alice:ck-secret"},
		`requests_per_minute of alice is "0", not a whole number`: {"alice:" + h + "::0"},
		`usd_per_day of alice is "-1", not a number`:              {"alice:" + h + ":::-1"},
		`usd_per_day of alice is "NaN", not a number`:             {"alice:" + h + ":::NaN"},
		`usd_per_day of alice is "Inf", not a number`:             {"alice:" + h + ":::Inf"},
		":2: the key is that of line 1":                           {"alice:" + h, "bob:" + h},
		":2: the name alice is that of line 1":                    {"alice:" + h, "alice:" + strings.Repeat("0b", 32)},
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
	h := hashKey("secret")
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
	line := "a:" + hashKey("secret")
	comment := "#" + strings.Repeat("x", maxKeysFile-len(line)-len("#\n\n"))
	_, err := LoadKeys(keysFile(t, line, comment))
	require.NoError(t, err)
	name := keysFile(t, line, comment+"x")
	_, err = LoadKeys(name)
	require.ErrorContains(t, err, name+" has 1048577 bytes, at most 1048576 are read")
}
