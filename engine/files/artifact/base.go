package artifact

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path"
)

// Base is a tree of files that sessions start from. It is stored once, beside the
// sessions; package snapshot reads and writes it. The nil Base has no files.
type Base struct {
	hash     string
	manifest Manifest
	open     func(context.Context, File) (io.ReadCloser, error)

	byPath    map[string]int  // indexes into the manifest
	bySum     map[string]int  // index of one file with the content
	ancestors map[string]bool // directories of all files
}

// The limits of a base.
const (
	maxBaseFiles     = 100_000
	MaxBaseBytes     = 2 << 30
	MaxBaseFileBytes = 100 << 20
)

// NewBase returns the base with the given hash and manifest; open reads a file's content.
func NewBase(hash string, m Manifest, open func(context.Context, File) (io.ReadCloser, error)) (*Base, error) {
	if err := m.checkCount(maxBaseFiles); err != nil {
		return nil, fmt.Errorf("base %s: %w", hash, err)
	}
	b := &Base{
		hash: hash, manifest: m, open: open,
		byPath: make(map[string]int, len(m.Files)), bySum: make(map[string]int, len(m.Files)), ancestors: map[string]bool{},
	}
	for i, f := range m.Files {
		b.byPath[f.Path] = i
		if f.isRegular() {
			b.bySum[f.SHA256] = i
		}
		for dir := path.Dir(f.Path); dir != "." && !b.ancestors[dir]; dir = path.Dir(dir) {
			b.ancestors[dir] = true
		}
	}
	return b, nil
}

// Hash returns the hash of the base's manifest, or "" if b is nil.
func (b *Base) Hash() string {
	if b == nil {
		return ""
	}
	return b.hash
}

// Manifest returns the base's files.
func (b *Base) Manifest() Manifest {
	if b == nil {
		return Manifest{}
	}
	return b.manifest
}

// Has reports whether the base has a file or directory at a path.
func (b *Base) Has(name string) bool {
	return b != nil && (b.ancestors[name] || b.hasEntry(name))
}

// Open reads the content with f's hash from the base.
func (b *Base) Open(ctx context.Context, f File) (io.ReadCloser, error) {
	at, ok := b.bySum[f.SHA256]
	if !ok {
		return nil, fmt.Errorf("content %s in base %s: %w", f.SHA256, b.hash, ErrNotFound)
	}
	return b.open(ctx, b.manifest.Files[at])
}

// ReadFile returns the content with f's hash from the base.
func (b *Base) ReadFile(ctx context.Context, f File) ([]byte, error) {
	r, err := b.Open(ctx, f)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(io.LimitReader(r, f.Size))
}

func (b *Base) hasEntry(name string) bool {
	_, ok := b.File(name)
	return ok
}

// File returns the file at a path.
func (b *Base) File(name string) (File, bool) {
	if b == nil {
		return File{}, false
	}
	at, ok := b.byPath[name]
	if !ok {
		return File{}, false
	}
	return b.manifest.Files[at], true
}

// HasContent reports whether a file of the base has content with the given hash.
func (b *Base) HasContent(sum string) bool {
	if b == nil {
		return false
	}
	_, ok := b.bySum[sum]
	return ok
}

// OpenFile reads a file of the session, from its base if that has the content. The reader
// does not verify the hash.
func OpenFile(ctx context.Context, store Store, layout Layout, f File) (io.ReadCloser, error) {
	if layout.base.HasContent(f.SHA256) {
		return layout.base.Open(ctx, f)
	}
	return store.Open(ctx, layout.Blob(f.SHA256))
}

// ReadFile returns the content of a file of the session, or ErrCorrupt if its hash differs.
func ReadFile(ctx context.Context, store Store, layout Layout, f File) ([]byte, error) {
	src, err := OpenFile(ctx, store, layout, f)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	var b bytes.Buffer
	err = CopyVerified(ctx, &b, src, f)
	return b.Bytes(), err
}

func copyContent(ctx context.Context, store Store, layout Layout, f File, key string) error {
	if !layout.base.HasContent(f.SHA256) {
		return store.Copy(ctx, layout.Blob(f.SHA256), key)
	}
	src, err := layout.base.Open(ctx, f)
	if err != nil {
		return err
	}
	defer src.Close()
	temp, err := os.CreateTemp("", "conclave-transfer-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	defer temp.Close()
	if err := CopyVerified(ctx, temp, src, f); err != nil {
		return err
	}
	if _, err := temp.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return store.Put(ctx, key, temp)
}

// Layout builds the keys of one session's directory. The zero Layout is for a store that
// has a single session at its root.
type Layout struct {
	root   string // prefix such as sessions/<id>/
	branch string // path within it of a branch of a pipeline's run, such as branches/review/style/; empty outside
	base   *Base  // base that the session starts from; nil without one
}

// InBucket returns the layout of a session in a bucket: sessions/<id>/….
func InBucket(session string) Layout { return Layout{root: "sessions/" + session + "/"} }

// InPipeline returns the layout of a pipeline's run in a bucket: pipelines/<id>/….
func InPipeline(id string) Layout { return Layout{root: "pipelines/" + id + "/"} }

// InScenario returns the layout of a scenario's run in a bucket: scenarios/<slug>/runs/<id>/….
func InScenario(slug, run string) Layout {
	return Layout{root: "scenarios/" + slug + "/runs/" + run + "/"}
}

// On returns the layout of a session that starts from base, which may be nil.
func (l Layout) On(base *Base) Layout {
	l.base = base
	return l
}

// Base returns the base that the session starts from; nil without one.
func (l Layout) Base() *Base { return l.base }

// WorkflowKey returns the key of the record that names a workflow's session or run. The key
// contains a hash of the ID, which may have characters that keys cannot have.
func WorkflowKey(workflow string) string {
	return "workflows/" + SumOf([]byte(workflow)) + ".json"
}

// Deleted is the name of the file that marks a session or run as being deleted. It is written
// first and deleted last, so that a partly deleted session can be recognized.
const Deleted = "deleted.json"

// Root returns the prefix of every key of the session, empty or ending in "/".
func (l Layout) Root() string { return l.root }

// File returns the key of a file at the session's root, such as session.json.
func (l Layout) File(name string) string { return l.root + name }

// Agent returns the key of a file in an agent's directory.
func (l Layout) Agent(agent, name string) string { return l.root + "agents/" + agent + "/" + name }

// Step returns the key of a file in a step's directory. Numbers have at least three digits.
func (l Layout) Step(agent string, step int, name string) string {
	return fmt.Sprintf("%sagents/%s/%03d/%s", l.root, agent, step, name)
}

// InBranch returns the layout for the steps of a branch of a pipeline's run; an empty path means outside.
func (l Layout) InBranch(path string) Layout {
	if l.branch = ""; path != "" {
		l.branch = "branches/" + path + "/"
	}
	return l
}

// PipelineStep returns the key of a file in a directory of a pipeline's step: steps/<NNN>-<name>/…, or within
// branches/<path>/ for the step of a branch.
func (l Layout) PipelineStep(number int, step, name string) string {
	return fmt.Sprintf("%s%ssteps/%03d-%s/%s", l.root, l.branch, number, step, name)
}

// PipelineClaim returns the key of the claim of a pipeline's step number.
func (l Layout) PipelineClaim(number int) string {
	return fmt.Sprintf("%s%sclaims/%03d.json", l.root, l.branch, number)
}

// ScenarioStep returns the key of a file in the directory of a launch of a scenario's
// step: step-<NN>/… for the first launch, step-<NN>/launch-<n>/… for later ones.
func (l Layout) ScenarioStep(step string, launch int, name string) string {
	if launch > 1 {
		return fmt.Sprintf("%sstep-%s/launch-%d/%s", l.root, step, launch, name)
	}
	return l.root + "step-" + step + "/" + name
}

// Evidence returns the key of a file among the evidence of an attempt of a scenario's step:
// step-<NN>/evidence/… for the first attempt, step-<NN>/attempt-<m>/evidence/… for later ones.
func (l Layout) Evidence(step string, attempt int, name string) string {
	if attempt > 1 {
		return fmt.Sprintf("%sstep-%s/attempt-%d/evidence/%s", l.root, step, attempt, name)
	}
	return l.root + "step-" + step + "/evidence/" + name
}

// Final returns the key of a file of the final answer.
func (l Layout) Final(agent, name string) string { return l.root + "final/" + agent + "/" + name }

// Message returns the key of a human message by its number, from 1.
func (l Layout) Message(number int) string {
	return fmt.Sprintf("%smessages/%03d.json", l.root, number)
}

// Ledger returns the key of the seq-th accepted action of a run.
func (l Layout) Ledger(seq int) string { return fmt.Sprintf("%sledger/%06d.json", l.root, seq) }

// SavedState returns the key of the state that a run has saved last.
func (l Layout) SavedState(run string) string { return l.root + "runs/" + run + "/state.json" }

// Blob returns the key of content by its SHA-256 in hex. With an empty sum it returns the
// prefix of all blobs.
func (l Layout) Blob(sum string) string { return l.root + "blobs/sha256/" + sum }

// Journals returns the prefix of the journal of a step's execution.
func (l Layout) Journals(token string) string { return l.root + "journal/" + token + "/" }

// Journal returns the key of the seq-th journal entry of a step's execution.
func (l Layout) Journal(token string, seq int) string {
	return fmt.Sprintf("%s%06d.json", l.Journals(token), seq)
}
