package session

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"conclave/engine/config"
	"conclave/engine/files/artifact"
	"conclave/engine/files/snapshot"
	"conclave/engine/llm"
	"conclave/engine/loop"
)

// drawn returns a PNG.
func drawn(t *testing.T, width int) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, width, 2))))
	return b.Bytes()
}

// stored stores files and returns them as pictures of a question.
func stored(t *testing.T, store artifact.Store, files map[string][]byte) (shown []artifact.Picture) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		shown = append(shown, artifact.Picture{Path: name})
	}
	done, err := snapshot.Upload{Store: store, Dir: dir, Now: time.Now}.Run(t.Context())
	require.NoError(t, err)
	for i := range shown {
		shown[i].Manifest = snapshot.Reference(done.Hash)
	}
	return shown
}

// looking is a model that keeps its requests.
type looking struct {
	script
	seen []llm.Request
}

func (l *looking) Generate(ctx context.Context, req llm.Request) (llm.Reply, error) {
	l.seen = append(l.seen, req)
	return l.script.Generate(ctx, req)
}

// Every call shows the pictures of the question. They are stored once: no journal and no transcript has them.
func TestRunStep_pictures(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	model := &looking{script: script{replies: []func(context.Context) (llm.Message, error){
		calls("list_files", map[string]string{}), calls("new_answer", map[string]string{"content": "A lamp."}),
	}}}
	f.OnModel = func(config.Agent) (loop.Model, error) { return model, nil }
	picture := drawn(t, 7)
	session := artifact.Session{Query: "What is this?", Material: artifact.Material{Images: stored(t, f.store, map[string][]byte{"lamp.png": picture})}}
	data, err := json.Marshal(session)
	require.NoError(t, err)
	require.NoError(t, f.store.Put(t.Context(), "sessions/s1/session.json", bytes.NewReader(data)))
	_, err = f.run(answering())
	require.NoError(t, err)

	require.Len(t, model.seen, 2)
	for _, req := range model.seen {
		question := req.Messages[1]
		require.Contains(t, question.Content, "With it comes a picture, shown below this text: lamp.png.")
		require.Len(t, question.Images, 1)
		require.Equal(t, "image/png", question.Images[0].MediaType)
		require.Equal(t, picture, question.Images[0].Data)
	}
	transcript, err := f.store.Get(t.Context(), "sessions/s1/agents/agent_a/001/transcript.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(transcript), `"ref":"`+artifact.SumOf(picture)+`"`)
	require.NotContains(t, string(transcript), `"data":"`)
}

func TestPrepare_refusesPictures(t *testing.T) {
	t.Parallel()
	f := newFloor(t)
	many := stored(t, f.store, map[string][]byte{"a.png": drawn(t, 3)})
	for len(many) <= artifact.MaxPictures {
		many = append(many, many[0])
	}
	for want, images := range map[string][]artifact.Picture{
		`"no.png" is no file of sha256:`:   {{Manifest: many[0].Manifest, Path: "no.png"}},
		"conclave upload":                  {{Manifest: "sha256:x", Path: "a.png"}},
		"leave at most 20":                 many,
		"it is not a PNG, JPEG":            stored(t, f.store, map[string][]byte{"a.png": []byte("text")}),
		"damaged":                          stored(t, f.store, map[string][]byte{"a.png": drawn(t, 30)[:40]}),
		"pixels, more than 8000 on a side": stored(t, f.store, map[string][]byte{"a.png": drawn(t, 8001)}),
	} {
		_, err := f.prepare(PrepareInput{Material: artifact.Material{Images: images}})
		require.ErrorContains(t, err, want)
	}
	_, err := f.prepare(PrepareInput{Material: artifact.Material{Images: stored(t, f.store, map[string][]byte{strings.Repeat("n", 200) + "\n.png": drawn(t, 8)})}})
	require.NoError(t, err)
}
