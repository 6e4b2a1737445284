//go:build simulate

package stagetest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"conclave/engine/files/artifact"
)

// bucket is the store. Its content changes only when the world lets a call return.
type bucket struct {
	w       *world
	objects map[string]object
	away    time.Time // until when every call fails
}

type object struct {
	body     []byte
	modified time.Time
}

func newBucket(w *world) *bucket { return &bucket{w: w, objects: map[string]object{}} }

func (b *bucket) get(key string) ([]byte, error) {
	o, ok := b.objects[key]
	if !ok {
		return nil, fmt.Errorf("get %s: %w", key, artifact.ErrNotFound)
	}
	return bytes.Clone(o.body), nil
}

func (b *bucket) put(by, key string, body []byte) {
	before, there := b.objects[key]
	b.objects[key] = object{bytes.Clone(body), time.Now()}
	b.w.facts.written(by, key, before.body, there, body)
}

func (b *bucket) delete(by, key string) {
	if _, there := b.objects[key]; there {
		delete(b.objects, key)
		b.w.facts.deleted(by, key)
	}
}

func (b *bucket) list(prefix string) (keys []string) {
	for key := range b.objects {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// view is the bucket as a process reaches it: an artifact.Store.
type view struct {
	*bucket
	proc *process
}

var (
	reading = []option{{"failed", 6}, {"slow 2s", 6}, {"slow 15s", 3}, {"slow 1m10s", 2}, {"hang 2m", 1}}
	writing = slices.Concat(reading, []option{{"lost", 10}})
	once    = slices.Concat(writing, []option{{"late 3s", 5}, {"late 40s", 3}})
)

var (
	runIDs = regexp.MustCompile(`00000000-0000-4000-8000-0000000000(\d\d)`)
	hashes = regexp.MustCompile(`sha256/[0-9a-f]{64}`)
	random = regexp.MustCompile(`/[A-Z2-7]{26}\b`) // rand.Text
)

// short returns a key as scripts name it.
func short(key string) string {
	key = runIDs.ReplaceAllString(key, "r$1")
	key = hashes.ReplaceAllString(key, "blob")
	key = random.ReplaceAllString(key, "/random")
	for _, prefix := range []string{"sessions/s/", "pipelines/p/", "scenarios/shop/runs/j/"} {
		key = strings.TrimPrefix(key, prefix)
	}
	return key
}

func (v view) call(ctx context.Context, op, key string, options []option, perform func(what string) error) error {
	if v.proc == nil { // before the run
		return perform("")
	}
	fault := func(err error) error { return artifact.StoreFault(op+" "+key, err) }
	err := v.w.call(ctx, v.proc, op+" "+short(key), options, fault, func(what string) error {
		if time.Now().Before(v.away) {
			return fault(fmt.Errorf("simulated: the store is away"))
		}
		return perform(what)
	})
	if err != nil && op == "put" && strings.Contains(key, "/blobs/") {
		v.w.facts.refused(whoIs(ctx, v.proc))
	}
	return err
}

// Get implements artifact.Store.
func (v view) Get(ctx context.Context, key string) (body []byte, err error) {
	began := v.w.facts.clock()
	err = v.call(ctx, "get", key, reading, func(string) (err error) {
		body, err = v.get(key)
		return err
	})
	v.w.facts.reads(key, began, body, err)
	return body, err
}

// Open implements artifact.Store.
func (v view) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	var body io.ReadCloser
	var whole []byte
	began := v.w.facts.clock()
	err := v.call(ctx, "open", key, slices.Concat(reading, []option{{"torn", 4}}), func(what string) error {
		content, err := v.get(key)
		if err != nil {
			return err
		}
		if what == "torn" {
			body = io.NopCloser(io.MultiReader(bytes.NewReader(content[:len(content)/2]), failing{}))
			return nil
		}
		whole = content
		body = io.NopCloser(bytes.NewReader(content))
		return nil
	})
	if err != nil || whole != nil {
		v.w.facts.reads(key, began, whole, err)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// failing is the end of a response that broke off.
type failing struct{}

func (failing) Read([]byte) (int, error) {
	return 0, artifact.StoreFault("read", io.ErrUnexpectedEOF)
}

// Put implements artifact.Store.
func (v view) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return v.call(ctx, "put", key, writing, func(string) error { v.put(whoIs(ctx, v.proc), key, content); return nil })
}

// PutBlobs implements artifact.Store.
func (v view) PutBlobs(ctx context.Context, prefix string, contents []artifact.Content) error {
	return v.call(ctx, "put", prefix+"blobs", slices.Concat(writing, []option{{"torn", 4}}), func(what string) error {
		for i, c := range contents {
			if what == "torn" && i == len(contents)/2 {
				return artifact.StoreFault("put", io.ErrUnexpectedEOF)
			}
			v.put(whoIs(ctx, v.proc), prefix+c.SHA256, c.Data)
		}
		return nil
	})
}

// Create implements artifact.Store.
func (v view) Create(ctx context.Context, key string, body []byte) error {
	content, who := bytes.Clone(body), whoIs(ctx, v.proc)
	v.w.facts.issued(ctx, "create", key)
	done := v.w.facts.creates(key, content)
	err := v.call(ctx, "create", key, once, func(string) error {
		if _, there := v.objects[key]; there {
			return fmt.Errorf("create %s: %w", key, artifact.ErrExists)
		}
		v.put(who, key, content)
		return nil
	})
	done(err)
	return err
}

// Copy implements artifact.Store.
func (v view) Copy(ctx context.Context, src, dst string) error {
	return v.call(ctx, "copy", dst, writing, func(string) error {
		content, err := v.get(src)
		if err == nil {
			v.put(whoIs(ctx, v.proc), dst, content)
		}
		return err
	})
}

// Exists implements artifact.Store.
func (v view) Exists(ctx context.Context, key string) (there bool, err error) {
	err = v.call(ctx, "exists", key, reading, func(string) error { _, there = v.objects[key]; return nil })
	return there, err
}

// Delete implements artifact.Store.
func (v view) Delete(ctx context.Context, key string) error {
	return v.call(ctx, "delete", key, writing, func(string) error { v.delete(whoIs(ctx, v.proc), key); return nil })
}

// DeleteAll implements artifact.Store.
func (v view) DeleteAll(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	return v.call(ctx, "delete all", keys[0], slices.Concat(writing, []option{{"torn", 8}}), func(what string) error {
		for i, key := range keys {
			if what == "torn" && i >= len(keys)/2 {
				return artifact.StoreFault("delete", io.ErrUnexpectedEOF)
			}
			v.delete(whoIs(ctx, v.proc), key)
		}
		return nil
	})
}

// List implements artifact.Store.
func (v view) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for o, err := range v.Objects(ctx, prefix) {
			if !yield(o.Key, err) {
				return
			}
		}
	}
}

// Objects implements artifact.Store.
func (v view) Objects(ctx context.Context, prefix string) iter.Seq2[artifact.Object, error] {
	return func(yield func(artifact.Object, error) bool) {
		var found []artifact.Object
		torn := false
		err := v.call(ctx, "list", prefix, slices.Concat(reading, []option{{"torn", 6}}), func(what string) error {
			for _, key := range v.list(prefix) {
				o := v.objects[key]
				found = append(found, artifact.Object{Key: key, Size: int64(len(o.body)), Modified: o.modified})
			}
			torn = what == "torn"
			return nil
		})
		for i, o := range found {
			if torn && i >= len(found)/2 {
				err = artifact.StoreFault("list "+prefix, io.ErrUnexpectedEOF)
				break
			}
			if !yield(o, nil) {
				return
			}
		}
		if err != nil {
			yield(artifact.Object{}, err)
		}
	}
}

// URL implements artifact.Store.
func (v view) URL(key string) string { return "s3://bucket/" + key }

// clone returns a copy of the objects.
func (b *bucket) clone() map[string]object { return maps.Clone(b.objects) }
