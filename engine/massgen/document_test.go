package massgen

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// YAML 1.1 booleans, which MassGen accepts, are booleans. Other scalars are not.
func TestTruth(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"on": "true", "Yes": "true", "TRUE": "true", "off": "false", "No": "false", "false": "false", "1": "", "'on'": "", "maybe": "", "[on]": "",
	} {
		root, err := read([]byte("agents: []\nx: " + value))
		require.NoError(t, err)
		got := ""
		if on, ok := truth(get(root, "x")); ok {
			got = map[bool]string{true: "true", false: "false"}[on]
		}
		require.Equal(t, want, got, value)
	}
}

// A key is off if its value is false, null or empty.
func TestIsOff(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		"false": true, "no": true, "null": true, "": true, "[]": true, "{}": true, "''": true,
		"true": false, "0": false, "x": false, "[0]": false, "{a: b}": false,
	} {
		root, err := read([]byte("agents: []\nx: " + value))
		require.NoError(t, err)
		require.Equal(t, want, isOff(get(root, "x")), "%q", value)
	}
}

// Aliases and merge keys are expanded. The mapping's own keys take precedence.
func TestRead_merges(t *testing.T) {
	t.Parallel()
	root, err := read([]byte("base: &b {type: openai, model: m}\nmore: &m {model: n, seed: 1}\nx: {<<: [*b, *m], type: groq}\ny: *b\n"))
	require.NoError(t, err)
	for path, want := range map[string]string{"type": "groq", "model": "m", "seed": "1"} {
		require.Equal(t, want, text(get(get(root, "x"), path)), path)
	}
	require.Equal(t, "m", text(get(get(root, "y"), "model")))
	require.Nil(t, get(get(root, "x"), "<<"))
	require.Nil(t, get(nil, "x"))
}

// The keys inside a value are listed once, without indexes of lists.
func TestBelow(t *testing.T) {
	t.Parallel()
	root, err := read([]byte("x: {a: 1, b: [{c: 2, d: {e: 3}}, {c: 4}], \"f g\": 5}\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "b.c", "b.d", "b.d.e", "f g"}, below(get(root, "x")))
	require.Empty(t, below(str("x")))
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]string{"[a, 2]": {"a", "2"}, "a": {"a"}, "{a: b}": nil, "null": nil} {
		root, err := read([]byte("x: " + value))
		require.NoError(t, err)
		require.Equal(t, want, texts(get(root, "x")), value)
	}
}

// Set replaces a value in place; arrange moves keys to the beginning.
func TestSetAndArrange(t *testing.T) {
	t.Parallel()
	m := mapping()
	for _, key := range []string{"c", "a", "b", "a"} {
		set(m, key, str(key))
	}
	set(section(m, "s"), "x", boolean(true))
	set(section(m, "s"), "y", boolean(false))
	arrange(m, "b", "missing", "c")
	var keys []string
	for _, e := range entries(m, "at") {
		keys = append(keys, e.path)
	}
	require.Equal(t, []string{"at.b", "at.c", "at.a", "at.s"}, keys)
	require.Len(t, entries(get(m, "s"), ""), 2)
}
