// Package patch describes the change between two trees of files: as a patch for git apply
// and patch -p1, as statistics, and as names.
//
// Changes pairs the files of both trees and finds renames. Write prints every change in
// git's extended format: modes, new, deleted and renamed files, links, files without a
// newline at their end, and binary files with both contents. patch -p1 accepts all of
// these except binary files, and directories in the place of files or the other way round.
//
// Apply makes changes in a directory, all or none: new files are written beside the old
// ones, the edits are recorded in a journal elsewhere, and then they are made by renames. Recover
// reverts an Apply that was killed.
//
// Reserved has the names that no tree of files may have. Manifests, patches and Apply refuse them.
//
// Start with Changes in plan.go and the renames in rename.go, then Write in write.go, and
// journal in stage.go.
package patch
