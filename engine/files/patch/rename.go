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
	maxPairs       = 400_000    // most pairs; if there are more, only those of one base name count
	maxLines       = 50_000_000 // most lines that comparisons visit
)

// renames finds the renames among deleted and added files.
type renames struct {
	found []Change
	used  map[*File]bool // files of found renames
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

// pairFiles returns the deleted and added files as changes. Equal files become renames, and then similar
// ones, the most similar first, as far as ctx and the bounds allow comparisons.
func pairFiles(ctx context.Context, deleted, added []*File) []Change {
	r := newRenames()
	r.findEqual(deleted, added, path.Base)
	r.findEqual(deleted, added, func(string) string { return "" })
	r.findSimilar(ctx, deleted, added)
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

func (r *renames) addRename(c Change) {
	if !r.used[c.Old] && !r.used[c.New] {
		r.used[c.Old], r.used[c.New] = true, true
		r.found = append(r.found, c)
	}
}

// findEqual finds the renames that keep the content, which is not empty, and the name of a path.
func (r *renames) findEqual(deleted, added []*File, name func(path string) string) {
	type kept struct {
		link bool
		name string
		sum  [sha256.Size]byte
	}
	of := func(f *File) kept { return kept{f.Mode == Link, name(f.Path), sha256.Sum256(f.Content)} }
	same := map[kept][]*File{}
	for _, f := range added {
		if len(f.Content) > 0 && !r.used[f] {
			same[of(f)] = append(same[of(f)], f)
		}
	}
	for _, f := range deleted {
		if others := same[of(f)]; len(others) > 0 && !r.used[f] {
			r.addRename(Change{Old: f, New: others[0], Similarity: 100})
			same[of(f)] = others[1:]
		}
	}
}

// findSimilar finds the renames of text files that have changed. It compares the likely pairs first.
func (r *renames) findSimilar(ctx context.Context, deleted, added []*File) {
	var similar []candidate
	sure := map[*File]bool{}
	pairs := r.listCandidates(deleted, added)
	for _, c := range pairs {
		if r.left <= 0 || ctx.Err() != nil {
			break
		}
		if sure[c.Old] || sure[c.New] {
			continue
		}
		if c.Similarity = r.measureSimilarity(c.Old, c.New); c.Similarity >= minSimilarity {
			similar = append(similar, c)
		}
		if c.Similarity >= sureSimilarity && (c.rank[0] == 0 || len(pairs) > manyPairs) {
			sure[c.Old], sure[c.New] = true, true
		}
	}
	slices.SortStableFunc(similar, func(a, b candidate) int { return cmp.Compare(b.Similarity, a.Similarity) })
	for _, c := range similar {
		r.addRename(c.Change)
	}
}

// candidate is a pair of files that may be similar. The likely pairs have low ranks.
type candidate struct {
	Change
	rank [4]int // 1 for different base names; less the equal directories above; the differences of places and of sizes
}

// listCandidates returns the pairs of text files whose sizes allow a similarity, the likely ones first:
// of all files if these are few, else of those with one base name.
func (r *renames) listCandidates(deleted, added []*File) (pairs []candidate) {
	unfit := func(f *File) bool { return r.used[f] || f.Mode == Link || len(f.Content) == 0 || isBinary(f.Content) }
	deleted, added = slices.DeleteFunc(slices.Clone(deleted), unfit), slices.DeleteFunc(slices.Clone(added), unfit)
	name := path.Base
	if len(deleted)*len(added) <= maxPairs {
		name = func(string) string { return "" }
	}
	called := map[string][]int{} // places in added
	for j, f := range added {
		called[name(f.Path)] = append(called[name(f.Path)], j)
	}
	for i, old := range deleted {
		for _, j := range called[name(old.Path)] {
			f := added[j]
			small, large := min(len(old.Content), len(f.Content)), max(len(old.Content), len(f.Content))
			if small*100/large >= minSimilarity && len(pairs) < maxPairs {
				rank := [...]int{0, -commonEnd(old.Path, f.Path), max(i-j, j-i), large - small}
				if rank[1] == 0 {
					rank[0] = 1
				}
				pairs = append(pairs, candidate{Change{Old: old, New: f}, rank})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b candidate) int { return slices.Compare(a.rank[:], b.rank[:]) })
	return pairs
}

func commonEnd(a, b string) (n int) {
	for path.Base(a) == path.Base(b) && a != "." {
		n, a, b = n+1, path.Dir(a), path.Dir(b)
	}
	return n
}

// measureSimilarity returns the percentage of the larger file's bytes in lines that both files have, at
// most 99.
func (r *renames) measureSimilarity(a, b *File) int {
	first, second, common := r.lineSpans(a), r.lineSpans(b), 0
	r.left -= len(first) + len(second)
	for len(first) > 0 && len(second) > 0 {
		order := cmp.Compare(first[0].hash, second[0].hash)
		if order == 0 {
			common += min(first[0].bytes, second[0].bytes)
		}
		if order <= 0 {
			first = first[1:]
		}
		if order >= 0 {
			second = second[1:]
		}
	}
	return min(99, common*100/max(len(a.Content), len(b.Content)))
}

func (r *renames) lineSpans(f *File) []span {
	if spans, ok := r.lines[f]; ok {
		return spans
	}
	sizes := map[uint64]int{}
	for line := range bytes.Lines(f.Content) {
		sizes[maphash.Bytes(r.seed, line)] += len(line)
	}
	spans := make([]span, 0, len(sizes))
	for hash, size := range sizes {
		spans = append(spans, span{hash, size})
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.hash, b.hash) })
	r.lines[f] = spans
	return spans
}
