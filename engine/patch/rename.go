package patch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"hash/maphash"
	"path"
	"slices"
)

// The bounds of the search for renames.
const (
	minSimilarity  = 50         // percent that a renamed file keeps, as in git
	sureSimilarity = 75         // percent from which files of one base name are compared with no others
	manyPairs      = 10_000     // pairs above which that holds for files of any names
	maxPairs       = 400_000    // most pairs of deleted and added files; above, only those of one base name are pairs
	maxLines       = 50_000_000 // most lines that comparisons visit
)

// renames finds the renames among deleted and added files.
type renames struct {
	used  map[*File]bool // files of found renames
	found []Change
	lines map[*File][]span
	seed  maphash.Seed
	left  int // lines that may still be visited
}

// span is a line of a file: a hash, and its bytes in all places.
type span struct {
	hash  uint64
	bytes int
}

func newRenames() *renames {
	return &renames{used: map[*File]bool{}, lines: map[*File][]span{}, seed: maphash.MakeSeed(), left: maxLines}
}

// pair returns the deleted and added files as changes. Equal files become renames, and then similar
// ones, the most similar first, as far as ctx and the bounds allow comparisons.
func pair(ctx context.Context, deleted, added []*File) []Change {
	r := newRenames()
	r.equal(deleted, added)
	r.similar(ctx, deleted, added)
	for _, f := range deleted {
		if !r.used[f] {
			r.found = append(r.found, Change{Old: f})
		}
	}
	for _, f := range added {
		if !r.used[f] {
			r.found = append(r.found, Change{New: f})
		}
	}
	return r.found
}

func (r *renames) add(c Change) {
	if !r.used[c.Old] && !r.used[c.New] {
		r.used[c.Old], r.used[c.New] = true, true
		r.found = append(r.found, c)
	}
}

// equal finds the renames of files that are not empty and keep their content, first those that keep
// the base name.
func (r *renames) equal(deleted, added []*File) {
	type content struct {
		sum  [sha256.Size]byte
		link bool
		base string
	}
	sums := map[*File][sha256.Size]byte{}
	for _, f := range slices.Concat(deleted, added) {
		sums[f] = sha256.Sum256(f.Content)
	}
	for _, named := range []bool{true, false} {
		of := func(f *File) content {
			c := content{sum: sums[f], link: f.Mode == Link}
			if named {
				c.base = path.Base(f.Path)
			}
			return c
		}
		same := map[content][]*File{}
		for _, f := range added {
			if len(f.Content) > 0 && !r.used[f] {
				same[of(f)] = append(same[of(f)], f)
			}
		}
		for _, f := range deleted {
			if others := same[of(f)]; len(others) > 0 && !r.used[f] {
				r.add(Change{Old: f, New: others[0], Similarity: 100})
				same[of(f)] = others[1:]
			}
		}
	}
}

// candidate is a pair of files that may be similar.
type candidate struct {
	Change
	renamed  int // 1 if they have different base names
	distance int // difference of their sizes in bytes
	apart    int // difference of their places in the lists
}

// similar finds the renames of text files that have changed. It compares the likely pairs first.
func (r *renames) similar(ctx context.Context, deleted, added []*File) {
	var similar []candidate
	sure := map[*File]bool{}
	pairs := candidates(r.texts(deleted), r.texts(added))
	for _, c := range pairs {
		if r.left <= 0 || ctx.Err() != nil {
			break
		}
		if sure[c.Old] || sure[c.New] {
			continue
		}
		if c.Similarity = r.similarity(c.Old, c.New); c.Similarity < minSimilarity {
			continue
		}
		similar = append(similar, c)
		if (c.renamed == 0 || len(pairs) > manyPairs) && c.Similarity >= sureSimilarity {
			sure[c.Old], sure[c.New] = true, true
		}
	}
	slices.SortStableFunc(similar, func(a, b candidate) int { return cmp.Compare(b.Similarity, a.Similarity) })
	for _, c := range similar {
		r.add(c.Change)
	}
}

// texts returns the text files that are not renamed yet.
func (r *renames) texts(files []*File) []*File {
	return slices.DeleteFunc(slices.Clone(files), func(f *File) bool {
		return r.used[f] || f.Mode == Link || len(f.Content) == 0 || isBinary(f.Content)
	})
}

// candidates returns the pairs of files whose sizes allow a similarity, the likely ones first.
func candidates(deleted, added []*File) (pairs []candidate) {
	type place struct {
		*File
		at int
	}
	everyone := len(deleted)*len(added) <= maxPairs
	others := map[string][]place{}
	base := func(f *File) string {
		if everyone {
			return ""
		}
		return path.Base(f.Path)
	}
	for i, f := range added {
		others[base(f)] = append(others[base(f)], place{f, i})
	}
	for i, old := range deleted {
		for _, f := range others[base(old)] {
			if len(pairs) == maxPairs {
				break
			}
			small, large := min(len(old.Content), len(f.Content)), max(len(old.Content), len(f.Content))
			if small*100/large < minSimilarity {
				continue
			}
			c := candidate{Change: Change{Old: old, New: f.File}, distance: large - small, apart: max(i-f.at, f.at-i)}
			if path.Base(old.Path) != path.Base(f.Path) {
				c.renamed = 1
			}
			pairs = append(pairs, c)
		}
	}
	slices.SortStableFunc(pairs, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.renamed, b.renamed), cmp.Compare(a.distance, b.distance), cmp.Compare(a.apart, b.apart))
	})
	return pairs
}

// similarity returns the percentage of the larger file's bytes in lines that both files have, at
// most 99.
func (r *renames) similarity(a, b *File) int {
	first, second, common := r.spans(a), r.spans(b), 0
	r.left -= len(first) + len(second)
	for len(first) > 0 && len(second) > 0 {
		switch x, y := first[0], second[0]; {
		case x.hash < y.hash:
			first = first[1:]
		case x.hash > y.hash:
			second = second[1:]
		default:
			common += min(x.bytes, y.bytes)
			first, second = first[1:], second[1:]
		}
	}
	return min(99, common*100/max(len(a.Content), len(b.Content)))
}

// spans returns the different lines of a file, sorted by their hashes.
func (r *renames) spans(f *File) []span {
	if spans, ok := r.lines[f]; ok {
		return spans
	}
	var all []span
	for line := range bytes.Lines(f.Content) {
		all = append(all, span{maphash.Bytes(r.seed, line), len(line)})
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.hash, b.hash) })
	spans := all[:0]
	for _, s := range all {
		if n := len(spans); n > 0 && spans[n-1].hash == s.hash {
			spans[n-1].bytes += s.bytes
		} else {
			spans = append(spans, s)
		}
	}
	r.lines[f] = spans
	return spans
}
