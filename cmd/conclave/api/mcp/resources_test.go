package mcp

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// Clients refuse a resource with neither a text nor a blob.
func TestContents(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]mcp.ResourceContents{
		`{"uri":"a","blob":""}`:     {URI: "a"},
		`{"uri":"a","text":"x"}`:    {URI: "a", Text: "x"},
		`{"uri":"a","blob":"/w=="}`: {URI: "a", Blob: []byte{0xff}},
	} {
		data, err := json.Marshal(oneResource(&c).Contents[0])
		require.NoError(t, err)
		require.JSONEq(t, want, string(data))
	}
}
