package mcp

import (
	"bytes"
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
	require.Equal(t, "mcp__git-hub__create_issue", n.assignName(owner{"git-hub", "create_issue"}))
	require.Equal(t, "mcp__a_b__c_d_", n.assignName(owner{"a b", "c.d/"}))

	first := n.assignName(owner{"a", "b__c"})
	second := n.assignName(owner{"a__b", "c"})
	require.Equal(t, "mcp__a__b__c", first)
	require.Regexp(t, "^mcp__a__b__c_[0-9a-f]{8}$", second)
	require.Equal(t, second, n.assignName(owner{"a__b", "c"}))
	require.Equal(t, first, n.assignName(owner{"a", "b__c"}))

	long := n.assignName(owner{"server", strings.Repeat("x", 100) + "1"})
	require.Len(t, long, maxName)
	require.NotEqual(t, long, n.assignName(owner{"server", strings.Repeat("x", 100) + "2"}))
}

// Providers refuse requests with two tools of one name.
func TestOffer_skipsRepeatedTools(t *testing.T) {
	t.Parallel()
	o := offerOf([]*sdk.Tool{{Name: "read", Description: "first"}, {Name: "write"}, {Name: "read", Description: "second"}})
	require.Len(t, o.offeredTools(), 2)
	require.Equal(t, "first", o.offeredTools()[0].offered.Description)
	require.Equal(t, "mcp__s__write", o.offeredTools()[1].offered.Name)
}

func offerOf(listed []*sdk.Tool) *offer {
	l := &link{server: Server{Name: "s"}, log: slog.New(slog.DiscardHandler)}
	l.setTools(listed)
	return &offer{link: l, names: noNames()}
}

func TestOffer_filtersByTheServersNames(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		allowed, excluded []string
		want              []string
	}{
		"no filter":          {nil, nil, []string{"read", "write", "write all"}},
		"allowed":            {[]string{"write", "gone"}, nil, []string{"write"}},
		"excluded":           {nil, []string{"write"}, []string{"read", "write all"}},
		"excluded and both":  {[]string{"read", "write"}, []string{"write"}, []string{"read"}},
		"nothing is allowed": {[]string{}, nil, nil},
		"models' names":      {[]string{"mcp__s__read"}, nil, nil},
	} {
		o := offerOf([]*sdk.Tool{{Name: "read"}, {Name: "write"}, {Name: "write all"}})
		o.allowed, o.excluded = tt.allowed, tt.excluded
		var got []string
		for _, tool := range o.offeredTools() {
			got = append(got, tool.own)
		}
		require.Equal(t, tt.want, got, name)
	}
}

// A misspelled name would hide a tool or keep one on offer.
func TestOffer_logsUnknownNamesInFilters(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := offerOf([]*sdk.Tool{{Name: "read"}})
	o.link.log = slog.New(slog.NewTextHandler(&log, nil))
	o.allowed, o.excluded = []string{"read"}, []string{"delte"}
	require.Len(t, o.offeredTools(), 1)
	require.Contains(t, log.String(), "tool=delte")
	require.NotContains(t, log.String(), "tool=read")
	log.Reset()
	o.offeredTools()
	require.Empty(t, log.String(), "once for each list")
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
		sent, err := made.sendableArguments(written)
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
	sent, err := made.sendableArguments(`{"must":null,"may":null,"list":null,"either":null,"null":null,"union":null,"any":null,"reference":null,"unknown":null,"big":12345678901234567890}`)
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
		sent, err := withSchema(t, schema).sendableArguments(`{"a": 1}`)
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
