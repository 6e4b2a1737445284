package s3store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"conclave/engine/files/artifact"
)

// packed returns n contents of a session's blobs, one of which is empty.
func packed(n int) (contents []artifact.Content) {
	for i := range n {
		data := []byte(strings.Repeat(fmt.Sprintf("%d,", i), i))
		sum := sha256.Sum256(data)
		contents = append(contents, artifact.Content{SHA256: hex.EncodeToString(sum[:]), Data: data})
	}
	return contents
}

func requireContents(t *testing.T, s *Store, prefix string, contents []artifact.Content) {
	t.Helper()
	for _, c := range contents {
		body, err := s.Open(t.Context(), prefix+c.SHA256)
		require.NoError(t, err)
		data, err := io.ReadAll(body)
		require.NoError(t, err)
		require.NoError(t, body.Close())
		require.Equal(t, string(c.Data), string(data))
	}
}

func TestPutBlobs_oneObjectThatAnotherProcessFinds(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	writer := open(t, g.options("bucket", "team"))
	g.bucket(t, "bucket")
	blobs, contents := artifact.InBucket("s").Blob(""), packed(40)
	require.NoError(t, writer.PutBlobs(t.Context(), blobs, contents))
	requireContents(t, writer, blobs, contents)

	var keys []string
	for key, err := range writer.List(t.Context(), "sessions/s/") {
		require.NoError(t, err)
		keys = append(keys, key)
	}
	require.Len(t, keys, 1)

	reader := open(t, g.options("bucket", "team"))
	requireContents(t, reader, blobs, contents)
	require.NoError(t, reader.packs.close()) // as if there were no room on this machine
	requireContents(t, reader, blobs, contents)
	require.NoError(t, reader.Copy(t.Context(), blobs+contents[7].SHA256, "sessions/s/final/a/seven"))
	data, err := reader.Get(t.Context(), "sessions/s/final/a/seven")
	require.NoError(t, err)
	require.Equal(t, contents[7].Data, data)

	later := packed(60)[40:]
	require.NoError(t, writer.PutBlobs(t.Context(), blobs, later))
	requireContents(t, reader, blobs, later)
}

func TestPutBlobs_deletedWithItsSession(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	s := open(t, g.options("bucket", ""))
	g.bucket(t, "bucket")
	blobs, contents := artifact.InBucket("s").Blob(""), packed(3)
	require.NoError(t, s.PutBlobs(t.Context(), blobs, contents))
	require.NoError(t, s.packs.close())
	for key, err := range s.List(t.Context(), "sessions/s/") {
		require.NoError(t, err)
		require.NoError(t, s.Delete(t.Context(), key))
	}
	_, err := s.Open(t.Context(), blobs+contents[2].SHA256)
	require.ErrorIs(t, err, artifact.ErrNotFound)
	require.NoError(t, s.Put(t.Context(), blobs+contents[2].SHA256, strings.NewReader(string(contents[2].Data))))
	requireContents(t, s, blobs, contents[2:])
}

func TestPacks_malformed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ data, problem string }{
		"no header":   {"contents", "invalid character"},
		"cut short":   {`{"format":1,"files":["a"],"sizes":[3]}` + "\nab", "its header and its size differ"},
		"sizes":       {`{"format":1,"files":["a"],"sizes":[]}` + "\n", "its header and its size differ"},
		"newer":       {`{"format":2}` + "\n", "use a newer version"},
		"too long":    {`{"format":1,"files":["a"],"sizes":[1]}` + "\nab", "its header and its size differ"},
		"no contents": {``, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, new(packs).addPack("sessions/s/blobs/packs/p", []byte(tt.data)), tt.problem)
		})
	}
}

func TestPacks_keepsTheNewestOnThisMachine(t *testing.T) {
	t.Parallel()
	p := packs{room: 200}
	defer func() { require.NoError(t, p.close()) }()
	for i := range 3 {
		data := fmt.Sprintf(`{"format":1,"files":["%d"],"sizes":[100]}`+"\n%s", i, strings.Repeat("x", 100))
		require.NoError(t, p.addPack(fmt.Sprintf("blobs/packs/%d", i), []byte(data)))
	}
	for i, kept := range []bool{false, false, true} {
		_, body, found := p.findContent(fmt.Sprintf("blobs/sha256/%d", i))
		require.True(t, found)
		require.Equal(t, kept, body != nil, i)
	}
}
