package mcp

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

func noNames() *names { return &names{owners: make(map[string]owner)} }

// withSchema is a tool with the given schema.
func withSchema(t *testing.T, schema string) tool {
	t.Helper()
	var decoded any
	require.NoError(t, json.Unmarshal([]byte(schema), &decoded))
	made, err := newTool(noNames(), "s", &sdk.Tool{Name: "t", InputSchema: decoded})
	require.NoError(t, err)
	return made
}

func TestNames_areUniqueStableAndShort(t *testing.T) {
	t.Parallel()
	n := noNames()
	require.Equal(t, "mcp__git-hub__create_issue", n.of(owner{"git-hub", "create_issue"}))
	require.Equal(t, "mcp__a_b__c_d_", n.of(owner{"a b", "c.d/"}))

	first := n.of(owner{"a", "b__c"})
	second := n.of(owner{"a__b", "c"})
	require.Equal(t, "mcp__a__b__c", first)
	require.Regexp(t, "^mcp__a__b__c_[0-9a-f]{8}$", second)
	require.Equal(t, second, n.of(owner{"a__b", "c"}))
	require.Equal(t, first, n.of(owner{"a", "b__c"}))

	long := n.of(owner{"server", strings.Repeat("x", 100) + "1"})
	require.Len(t, long, maxName)
	require.NotEqual(t, long, n.of(owner{"server", strings.Repeat("x", 100) + "2"}))
}

// Providers refuse requests with two tools of one name.
func TestOffer_skipsRepeatedTools(t *testing.T) {
	t.Parallel()
	l := &link{server: Server{Name: "s"}, log: slog.New(slog.DiscardHandler), names: noNames()}
	l.offer([]*sdk.Tool{{Name: "read", Description: "first"}, {Name: "write"}, {Name: "read", Description: "second"}})
	require.Len(t, l.offered(), 2)
	require.Equal(t, "first", l.offered()[0].offered.Description)
	require.Equal(t, "mcp__s__write", l.offered()[1].offered.Name)
}

func TestNewTool_passesTheSchemaOnAsAnObject(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`null`:              `{"type":"object","properties":{}}`,
		`true`:              `{"type":"object","properties":{}}`,
		`{"type":"string"}`: `{"type":"object","properties":{}}`,
		`{}`:                `{"properties":{},"type":"object"}`,
		`{"$schema":"x","type":"object","properties":{"a":{"description":"<b> & c"}},"additionalProperties":false}`: `{"additionalProperties":false,"properties":{"a":{"description":"<b> & c"}},"type":"object"}`,
	} {
		require.Equal(t, want, string(withSchema(t, schema).offered.Parameters))
	}
	_, err := newTool(noNames(), "s", &sdk.Tool{Name: "t", InputSchema: map[string]any{"x": strings.Repeat("x", 1<<20)}})
	require.ErrorContains(t, err, "its schema has 1024 KiB")
}

func TestNewTool_boundsTheDescription(t *testing.T) {
	t.Parallel()
	made, err := newTool(noNames(), "s", &sdk.Tool{Name: "t", Description: strings.Repeat("é", 10_000)})
	require.NoError(t, err)
	require.LessOrEqual(t, len(made.offered.Description), maxDescription)
}

func TestArguments_areSentAsWritten(t *testing.T) {
	t.Parallel()
	made := withSchema(t, `{"type":"object","properties":{"id":{"type":"integer"},"scale":{"type":"string","default":"css"}},"required":["id","scale"]}`)
	for _, written := range []string{`{"id": 12345678901234567890}`, `{"id": "x", "unknown": [null]}`, `{}`} {
		sent, err := made.arguments(written)
		require.NoError(t, err)
		require.Equal(t, written, string(sent), "the server checks its arguments and fills in its defaults")
	}
}

func TestArguments_dropOptionalNulls(t *testing.T) {
	t.Parallel()
	made := withSchema(t, `{"type":"object","required":["must"],"properties":{
		"must":{"type":"string"}, "may":{"type":"string"}, "list":{"type":["integer","string"]},
		"either":{"anyOf":[{"type":"string"},{"type":"integer"}]},
		"null":{"type":["string","null"]}, "union":{"oneOf":[{"type":"string"},{"type":"null"}]},
		"any":{}, "reference":{"$ref":"#/$defs/x"}}}`)
	sent, err := made.arguments(`{"must":null,"may":null,"list":null,"either":null,"null":null,"union":null,"any":null,"reference":null,"unknown":null,"big":12345678901234567890}`)
	require.NoError(t, err)
	require.Equal(t, `{"any":null,"big":12345678901234567890,"must":null,"null":null,"reference":null,"union":null,"unknown":null}`, string(sent))
}

// No schema of a server makes the worker run for long or deep: only the types of
// top-level properties are read.
func TestArguments_acceptAnySchema(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{
		"itself":    `{"allOf":[{"$ref":"#"}]}`,
		"elsewhere": `{"properties":{"a":{"$ref":"https://example.com/schema.json"}}}`,
		"malformed": `{"properties":[1],"required":"a","type":"object"}`,
		"nested":    strings.Repeat(`{"not":`, 300) + `{}` + strings.Repeat(`}`, 300),
	} {
		sent, err := withSchema(t, schema).arguments(`{"a": 1}`)
		require.NoError(t, err, name)
		require.JSONEq(t, `{"a": 1}`, string(sent))
	}
}

func TestTail_isSafeForTerminals(t *testing.T) {
	t.Parallel()
	var end tail
	for range 10_000 {
		_, _ = end.Write([]byte("older\n"))
	}
	_, _ = end.Write([]byte("\x1b]0;title\x07\x1b[31mred\x1b[0m \x00\x9b\u202e\xffend\r\n"))
	require.LessOrEqual(t, len(end.String()), maxShown+len("…"))
	require.True(t, strings.HasSuffix(end.String(), "red \uFFFD\uFFFDend"), "%q", end.String())
	require.NotContains(t, end.String(), "\x1b")
}
