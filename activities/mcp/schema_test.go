package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

func described(t *testing.T, schema string) tool {
	t.Helper()
	var given any
	require.NoError(t, json.Unmarshal([]byte(schema), &given))
	made, err := newTool(&names{owners: make(map[string]owner)}, "s", &sdk.Tool{Name: "t", InputSchema: given})
	require.NoError(t, err)
	return made
}

func TestSchemasArePassedOn(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`null`:              `{"type":"object","properties":{}}`,
		`true`:              `{"type":"object","properties":{}}`,
		`{"type":"string"}`: `{"type":"object","properties":{}}`,
		`{}`:                `{"properties":{},"type":"object"}`,
		`{"$schema":"x","type":"object","properties":{"a":{"description":"<b> & c"}},"additionalProperties":false}`: `{"additionalProperties":false,"properties":{"a":{"description":"<b> & c"}},"type":"object"}`,
	} {
		require.Equal(t, want, string(described(t, given).told.Parameters))
	}
	_, err := newTool(&names{owners: make(map[string]owner)}, "s", &sdk.Tool{Name: "t", InputSchema: map[string]any{"x": strings.Repeat("x", 1<<20)}})
	require.ErrorContains(t, err, "its schema has 1024 KiB")
}

func TestDescriptionsAreBounded(t *testing.T) {
	t.Parallel()
	made, err := newTool(&names{owners: make(map[string]owner)}, "s", &sdk.Tool{Name: "t", Description: strings.Repeat("é", 10_000)})
	require.NoError(t, err)
	require.LessOrEqual(t, len(made.told.Description), maxDescription)
}

// What cannot be checked safely is left to the server.
func TestSchemasThatAreNotCheckedAgainst(t *testing.T) {
	t.Parallel()
	doubling := `"d0":{"type":"object"}`
	for i := range 40 {
		doubling += fmt.Sprintf(`,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	for name, schema := range map[string]string{
		"itself":          `{"allOf":[{"$ref":"#"}]}`,
		"by turns":        `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`,
		"doubling":        `{"$ref":"#/$defs/d40","$defs":{` + doubling + `}}`,
		"elsewhere":       `{"properties":{"a":{"$ref":"https://example.com/schema.json"}}}`,
		"dynamic":         `{"properties":{"a":{"$dynamicRef":"#x"}}}`,
		"nowhere":         `{"properties":{"a":{"$ref":"#/$defs/missing"}}}`,
		"pattern of Perl": `{"properties":{"a":{"type":"string","pattern":"(?<!x)y"}}}`,
		"nested":          strings.Repeat(`{"not":`, 300) + `{}` + strings.Repeat(`}`, 300),
	} {
		made := described(t, schema)
		require.Nil(t, made.checked, name)
		sent, err := made.arguments(`{"a": 1}`)
		require.NoError(t, err)
		require.JSONEq(t, `{"a": 1}`, string(sent))
	}
	tree := described(t, `{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","properties":{"child":{"$ref":"#"},"n":{"type":"integer"}}}`)
	_, err := tree.arguments(`{"child": {"child": {"n": "x"}}}`)
	require.ErrorContains(t, err, "n", "a schema that contains itself for other values is checked")
}

func TestNumbersArriveAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	sent, err := described(t, `{"type":"object","properties":{"id":{"type":"integer"}}}`).arguments(`{"id": 12345678901234567890}`)
	require.NoError(t, err)
	require.Equal(t, `{"id": 12345678901234567890}`, string(sent))
}

// Servers that describe their arguments with defaults filled in call those
// required, and take calls without them.
func TestARequiredArgumentWithADefaultMayBeAbsent(t *testing.T) {
	t.Parallel()
	made := described(t, `{"type":"object","properties":{"scale":{"type":"string","default":"css"},"ref":{"type":"string"}},"required":["scale"]}`)
	sent, err := made.arguments(`{}`)
	require.NoError(t, err)
	require.Equal(t, `{}`, string(sent))
	sent, err = made.arguments(`{"ref": null}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"scale":"css"}`, string(sent))
}
