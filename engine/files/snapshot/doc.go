// Package snapshot stores the directories that sessions start from, once for all sessions of a store.
//
// A base is named by the hash of its manifest. Its objects lie beside the sessions:
//
//   - base/manifests/sha256/<hex>.json is the manifest: all files, sorted by path.
//   - base/packs/<hex> has the contents of files up to 256 KiB, one after the other,
//     about 8 MiB together; base/blobs/<hex> has one larger file.
//   - base/indexes/<hex>.json lists the packs of a manifest, which may have been written for other bases.
//   - base/used/<hex>.json is replaced whenever the base is uploaded or a session starts
//     from it; base/holds/ and base/sweeps/ keep uploads and sweeps apart.
//
// Upload stores a directory, and reads only files that have changed since the last time.
// Promote stores the tree of a session. Both write the packs first, then the index,
// then the manifest, so that a stored manifest never names content that is missing.
//
// Open reads a base. Trees keeps unpacked bases on a machine. It copies them, by reflink
// where the file system has them, or mounts them, so that only changes take space.
//
// Sweep removes bases that no session names and that were not used for a day. Uploads and
// sweeps exclude each other: each announces itself before it looks for the other.
//
// Start with Upload.Run in upload.go and Trees.Open in trees.go.
package snapshot
