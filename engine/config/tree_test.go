package config

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// A key as written in messages leads to its value, or to the innermost value that would enclose it.
func TestFind(t *testing.T) {
	t.Parallel()
	root, err := ReadDocument("f", []byte("agents: [{id: a, env: {\"x y\": 1, xy: 2}}]\nagent: b\n"))
	require.NoError(t, err)
	for key, want := range map[string]string{
		"agents[0].id":           "agents[0].id",
		`agents[0].env."x y"`:    `agents[0].env."x y"`,
		"agents[0].env.x":        "agents[0].env",
		"agents[0].model.name":   "agents[0]",
		"agents[3]":              "agents",
		"agent":                  "agent",
		"":                       "",
		"elsewhere.agents[0].id": "",
	} {
		n, found := Find(root, key)
		require.Equal(t, want, found, key)
		require.NotNil(t, n)
	}
	n, _ := Find(root, "agents[0].env.xy")
	require.Equal(t, "2", n.Value)
}

// A value is replaced in place and takes the comments of the one before; a new key is the last.
func TestSetEntry(t *testing.T) {
	t.Parallel()
	var document yaml.Node
	require.NoError(t, yaml.Load([]byte("a: 1 # one\nb: 2\n"), &document))
	top := document.Content[0]
	for _, key := range []string{"a", "c"} {
		SetEntry(top, key, &yaml.Node{Kind: yaml.ScalarNode, Value: "9"})
	}
	data, err := yaml.Dump(&document)
	require.NoError(t, err)
	require.Equal(t, "a: 9 # one\nb: 2\nc: 9\n", string(data))
	require.Nil(t, Lookup(top, "d"))
	require.Nil(t, Lookup(nil, "a"))
	require.Empty(t, Entries(top.Content[0]))
}

// Positions in JSON count characters, whatever escapes and line ends come before.
func TestReadDocument_positionsInJSON(t *testing.T) {
	t.Parallel()
	root, err := ReadDocument("f", []byte("{\"\\ud83d\\ude00\": \"ä\\/\", \"b\"\n:\t[1,\r\n\t{\"c\" : null}]}"))
	require.NoError(t, err)
	at := func(n *yaml.Node) [2]int { return [2]int{n.Line, n.Column} }
	entries := Entries(root)
	require.Equal(t, "😀", entries[0].Key.Value)
	require.Equal(t, "ä/", entries[0].Value.Value)
	require.Equal(t, [2]int{1, 2}, at(entries[0].Key))
	require.Equal(t, [2]int{1, 18}, at(entries[0].Value))
	require.Equal(t, [2]int{1, 25}, at(entries[1].Key))
	require.Equal(t, [2]int{2, 3}, at(entries[1].Value))
	inner := Entries(entries[1].Value.Content[1])[0]
	require.Equal(t, [2]int{3, 3}, at(inner.Key))
	require.Equal(t, [2]int{3, 9}, at(inner.Value))
	require.Equal(t, null, kindOf(inner.Value))
}
