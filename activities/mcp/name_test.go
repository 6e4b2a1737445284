package mcp

import (
	"log/slog"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	n := &names{owners: make(map[string]owner)}
	require.Equal(t, "mcp__git-hub__create_issue", n.of(owner{"git-hub", "create_issue"}))
	require.Equal(t, "mcp__a_b__c_d_", n.of(owner{"a b", "c.d/"}))

	first := n.of(owner{"a", "b__c"})
	second := n.of(owner{"a__b", "c"})
	require.Equal(t, "mcp__a__b__c", first)
	require.Regexp(t, "^mcp__a__b__c_[0-9a-f]{8}$", second)
	require.Equal(t, second, n.of(owner{"a__b", "c"}), "a name stays")
	require.Equal(t, first, n.of(owner{"a", "b__c"}))

	long := n.of(owner{"server", strings.Repeat("x", 100) + "1"})
	require.Len(t, long, maxName)
	require.NotEqual(t, long, n.of(owner{"server", strings.Repeat("x", 100) + "2"}))
	require.True(t, Is(long))
	require.False(t, Is("read_file"))
}

// Two tools of one name would have providers refuse every request.
func TestAToolIsOfferedOnce(t *testing.T) {
	t.Parallel()
	l := &link{server: Server{Name: "s"}, log: slog.New(slog.DiscardHandler), names: &names{owners: make(map[string]owner)}}
	l.offer([]*sdk.Tool{{Name: "read", Description: "first"}, {Name: "write"}, {Name: "read", Description: "second"}})
	require.Len(t, l.offered(), 2)
	require.Equal(t, "first", l.offered()[0].told.Description)
	require.Equal(t, "mcp__s__write", l.offered()[1].told.Name)
}

func TestStandardErrorIsShownWithoutControlCharacters(t *testing.T) {
	t.Parallel()
	var kept tail
	for range 10_000 {
		_, _ = kept.Write([]byte("older\n"))
	}
	_, _ = kept.Write([]byte("\x1b]0;title\x07\x1b[31mred\x1b[0m \x00\x9b\u202e\xffend\r\n"))
	require.LessOrEqual(t, len(kept.String()), maxShown+len("…"))
	require.True(t, strings.HasSuffix(kept.String(), "red \uFFFD\uFFFDend"), "%q", kept.String())
	require.NotContains(t, kept.String(), "\x1b")
}
