"""Runs a study in pieces, two at a time, and prints an estimate of the time left. The result of each piece is stored
in a file, so a stopped study can be continued."""
import concurrent.futures
import hashlib
import json
import random
import sys
import time

TOGETHER = 2


def build_hash(build, programs):
    """Returns a short hash of these programs and of the libraries of a build. A study stores its results under this
    hash, so that it does not use those of another build."""
    files = [build / "bin" / name for name in programs] + sorted((build / "lib").glob("*.so*"))
    hashes = [hashlib.sha256(file.read_bytes()).digest() for file in files if file.exists()]
    return hashlib.sha256(b"".join(hashes)).hexdigest()[:12]


def run_piece(piece, file):
    """Runs a piece, a function that writes JSON to a file. The file exists only if the piece succeeded. Returns the
    seconds that the piece took."""
    start = time.monotonic()
    partial = file.with_suffix(".partial")
    piece(partial)
    partial.rename(file)
    return time.monotonic() - start


def run_pieces(pieces, folder):
    """Runs all pieces, {name: function}, without a stored result. Returns the result of each piece by its name. A piece
    fails by a RuntimeError. If one failed, the program ends after all others have run."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: folder / f"{name}.json" for name in sorted(pieces)}
    left = [name for name, file in files.items() if not file.exists()]
    random.Random(1).shuffle(left)  # so that the mean time of the pieces so far is an estimate for the others
    print(f"{len(left)} of {len(pieces)} pieces to run; results in {folder}", flush=True)
    start, failed = time.monotonic(), []
    pool = concurrent.futures.ThreadPoolExecutor(TOGETHER)
    runs = {pool.submit(run_piece, pieces[name], files[name]): name for name in left}
    try:
        for done, future in enumerate(concurrent.futures.as_completed(runs), 1):
            try:
                outcome = f"{future.result():.0f} s"
            except RuntimeError as error:
                outcome = "failed"
                failed.append(str(error))
            minutes = (time.monotonic() - start) / done * (len(left) - done) / 60
            print(f"{done} of {len(left)}: {runs[future]}: {outcome}; about {minutes:.0f} minutes left", flush=True)
    except KeyboardInterrupt:
        sys.exit("interrupted; the next call continues")
    finally:
        pool.shutdown(cancel_futures=True)
    if failed:
        sys.exit("\n".join(failed) + f"\n{len(failed)} pieces failed; the next call runs them again")
    return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items()}
