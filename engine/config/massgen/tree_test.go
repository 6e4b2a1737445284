package massgen

import (
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
)

// YAML 1.1 booleans, which MassGen accepts, are booleans. Other scalars are not.
func TestTruth(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"on": "true", "Yes": "true", "TRUE": "true", "off": "false", "No": "false", "false": "false", "1": "", "'on'": "", "maybe": "", "[on]": "",
	} {
		root, err := readDocument([]byte("agents: []\nx: " + value))
		require.NoError(t, err)
		got := ""
		if on, ok := boolValue(config.Lookup(root, "x")); ok {
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
		root, err := readDocument([]byte("agents: []\nx: " + value))
		require.NoError(t, err)
		require.Equal(t, want, isOff(config.Lookup(root, "x")), "%q", value)
	}
}

// Aliases and merge keys are expanded. The mapping's own keys take precedence.
func TestRead_merges(t *testing.T) {
	t.Parallel()
	root, err := readDocument([]byte("base: &b {type: openai, model: m}\nmore: &m {model: n, seed: 1}\nx: {<<: [*b, *m], type: groq}\ny: *b\n"))
	require.NoError(t, err)
	for path, want := range map[string]string{"type": "groq", "model": "m", "seed": "1"} {
		require.Equal(t, want, entryText(config.Lookup(root, "x"), path), path)
	}
	require.Equal(t, "m", entryText(config.Lookup(root, "y"), "model"))
	require.Nil(t, config.Lookup(config.Lookup(root, "x"), "<<"))
}

// The keys inside a value are listed once, without indexes of lists.
func TestKeysBelow(t *testing.T) {
	t.Parallel()
	root, err := readDocument([]byte("x: {a: 1, b: [{c: 2, d: {e: 3}}, {c: 4}], \"f g\": 5}\n"))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "b.c", "b.d", "b.d.e", "f g"}, appendMissing(nil, keysBelow(config.Lookup(root, "x"), "")...))
	require.Empty(t, keysBelow(newString("x"), ""))
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]string{"[a, 2]": {"a", "2"}, "a": {"a"}, "{a: b}": nil, "null": nil} {
		root, err := readDocument([]byte("x: " + value))
		require.NoError(t, err)
		require.Equal(t, want, scalarTexts(config.Lookup(root, "x")), value)
	}
}
