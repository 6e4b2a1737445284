package devserver

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"
	"github.com/versity/versitygw/s3response"
)

func TestAttributes_syncWithTheLastOne(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "object"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	synced := 0
	a := &attributes{sync: func(f *os.File) error {
		synced++
		for _, name := range []string{"etag", lastAttribute} {
			_, err := (&attributes{}).RetrieveAttribute(f, "", "", name)
			require.NoError(t, err, "synced with all attributes")
		}
		return nil
	}}
	store := func(name string) error { return a.StoreAttribute(f, "", "", name, []byte("x")) }
	require.NoError(t, store(lastAttribute))
	require.False(t, a.forget(f))
	require.Zero(t, synced, "of an object that nobody expects")

	a.expect(f)
	require.NoError(t, store("etag"))
	require.Zero(t, synced)
	require.NoError(t, store(lastAttribute))
	require.Equal(t, 1, synced)
	require.True(t, a.forget(f))
	require.False(t, a.forget(f))

	full := errors.New("no space left")
	a.sync = func(*os.File) error { return full }
	a.expect(f)
	require.ErrorIs(t, store(lastAttribute), full)
	require.False(t, a.forget(f))
}

func TestPlain(t *testing.T) {
	t.Parallel()
	kind := aws.String("text/plain")
	require.True(t, plain(s3response.PutObjectInput{ContentType: kind}))
	for name, in := range map[string]s3response.PutObjectInput{
		"no type":  {},
		"metadata": {ContentType: kind, Metadata: map[string]string{"a": "b"}},
		"encoding": {ContentType: kind, ContentEncoding: aws.String("gzip")},
		"tags":     {ContentType: kind, Tagging: aws.String("a=b")},
	} {
		require.False(t, plain(in), name)
	}
}
