package artifact

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// List implements Store. A file whose name no key can express is left out.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := CheckPrefix(prefix); err != nil {
			yield("", fmt.Errorf("list %q: %w", prefix, err))
			return
		}
		d.list(ctx, prefix, func(key string, err error) bool {
			if err != nil {
				err = fmt.Errorf("list %q: %w", prefix, err)
			}
			return yield(key, err)
		})
	}
}

// list yields the keys below a directory and reports whether to go on.
func (d *Dir) list(ctx context.Context, prefix string, yield func(string, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield("", err)
		return false
	}
	entries, err := d.entries(prefix)
	if err != nil {
		yield("", err)
		return false
	}
	for _, key := range entries {
		if strings.HasSuffix(key, "/") {
			if !d.list(ctx, key, yield) {
				return false
			}
		} else if !yield(key, nil) {
			return false
		}
	}
	return true
}

// entries are the keys of the files in a directory, and of the directories with
// "/" after them. With it, the order of names is the order of the keys below
// them: "a-b" comes before "a/b".
func (d *Dir) entries(prefix string) ([]string, error) {
	name := cmp.Or(strings.TrimSuffix(unescapeKey(prefix), "/"), ".")
	if info, err := d.root.Stat(name); missing(err) || err == nil && !info.IsDir() {
		return nil, nil
	}
	dir, err := d.root.Open(name)
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	found, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(found))
	for _, entry := range found {
		var b strings.Builder
		b.WriteString(prefix)
		escapeSegment(&b, entry.Name())
		switch {
		case CheckKey(b.String()) != nil:
		case entry.Type().IsRegular():
			keys = append(keys, b.String())
		case entry.IsDir():
			keys = append(keys, b.String()+"/")
		}
	}
	slices.Sort(keys)
	return keys, nil
}
