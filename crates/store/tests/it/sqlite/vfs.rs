//! A SQLite VFS over a [`Disk`]: contents go there, locks and shared memory to the machine's real files.
//!
//! The only unsafe code in the store's tests. SQLite calls these functions with pointers it got from
//! `open`, one thread at a time per file, and never after `close`.

#![expect(unsafe_code, reason = "a file system for SQLite is a table of C functions")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use rusqlite::ffi::{self, sqlite3_file, sqlite3_io_methods, sqlite3_vfs};

use super::disk::{Disk, DiskError};

/// What SQLite allocates for each open file; the machine's file follows it in memory.
#[repr(C)]
struct File {
    base: sqlite3_file,
    handle: *mut Handle,
}

struct Handle {
    disk: &'static Disk,
    name: String,
    life: u64,
}

/// Registers the disk with SQLite under a unique name, for the rest of the process.
pub(crate) fn register(disk: &'static Disk, name: &str) {
    let name = CString::new(name).unwrap().into_raw();
    // SAFETY: the default file system exists as long as the process, the copy is never freed, and
    // its functions expect exactly the data that is put here.
    unsafe {
        let machine = ffi::sqlite3_vfs_find(ptr::null());
        let mut vfs = *machine;
        vfs.zName = name;
        vfs.pNext = ptr::null_mut();
        vfs.pAppData = ptr::from_ref(disk).cast_mut().cast();
        vfs.szOsFile = size_of::<File>() as c_int + (*machine).szOsFile;
        vfs.xOpen = Some(open);
        vfs.xDelete = Some(delete);
        vfs.xAccess = Some(access);
        let vfs = Box::into_raw(Box::new(vfs));
        assert_eq!(ffi::sqlite3_vfs_register(vfs, 0), ffi::SQLITE_OK);
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

fn code(error: DiskError) -> c_int {
    match error {
        DiskError::Dead => ffi::SQLITE_IOERR,
        DiskError::Full => ffi::SQLITE_FULL,
        DiskError::SyncFailed => ffi::SQLITE_IOERR_FSYNC,
        DiskError::WriteFailed => ffi::SQLITE_IOERR_WRITE,
    }
}

fn answer(result: Result<(), DiskError>) -> c_int {
    result.map_or_else(code, |()| ffi::SQLITE_OK)
}

/// The machine's default file system.
fn machine() -> *mut sqlite3_vfs {
    // SAFETY: finding the default file system has no preconditions.
    unsafe { ffi::sqlite3_vfs_find(ptr::null()) }
}

unsafe fn disk_of(vfs: *mut sqlite3_vfs) -> &'static Disk {
    // SAFETY: `register` put a disk that lives as long as the process there.
    unsafe { &*(*vfs).pAppData.cast::<Disk>() }
}

unsafe fn handle<'a>(file: *mut sqlite3_file) -> &'a Handle {
    // SAFETY: `open` put a handle there, which `close` alone frees.
    unsafe { &*(*file.cast::<File>()).handle }
}

/// The machine's file behind ours, and its functions.
unsafe fn below(file: *mut sqlite3_file) -> (*mut sqlite3_file, &'static sqlite3_io_methods) {
    // SAFETY: `szOsFile` made room for it right after our part, and `open` opened it.
    unsafe {
        let real = file.cast::<u8>().add(size_of::<File>()).cast::<sqlite3_file>();
        (real, &*(*real).pMethods)
    }
}

unsafe fn name_of<'a>(name: *const c_char) -> &'a str {
    // SAFETY: SQLite's file names are C strings; ours are made of plain characters.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap()
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    // SAFETY: called by SQLite with room for our file and the machine's after it.
    unsafe {
        (*file).pMethods = ptr::null();
        let real = file.cast::<u8>().add(size_of::<File>()).cast::<sqlite3_file>();
        (*real).pMethods = ptr::null();
        let opened = (*machine()).xOpen.unwrap()(machine(), name, real, flags, flags_out);
        // Temporary files have no name and need not survive.
        if opened != ffi::SQLITE_OK || name.is_null() {
            assert!(!name.is_null(), "nothing here needs a temporary file");
            return opened;
        }
        let (disk, name) = (disk_of(vfs), name_of(name).to_owned());
        disk.open(&name);
        let life = disk.life();
        (*file.cast::<File>()).handle = Box::into_raw(Box::new(Handle { disk, name, life }));
        (*file).pMethods = &raw const METHODS;
        ffi::SQLITE_OK
    }
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: called by SQLite with our file system and a name.
    unsafe {
        if let Err(error) = disk_of(vfs).remove(name_of(name)) {
            return code(error);
        }
        (*machine()).xDelete.unwrap()(machine(), name, sync)
    }
}

unsafe extern "C" fn access(
    vfs: *mut sqlite3_vfs,
    name: *const c_char,
    _flags: c_int,
    result: *mut c_int,
) -> c_int {
    // SAFETY: called by SQLite with our file system, a name, and a place for the answer.
    unsafe {
        let (disk, name) = (disk_of(vfs), name_of(name));
        // An empty log or journal counts as none.
        let size = disk.size(name, disk.life()).unwrap_or(0);
        *result = c_int::from(disk.exists(name) && size > 0);
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: the last call for this file; the handle came from a box.
    unsafe {
        drop(Box::from_raw((*file.cast::<File>()).handle));
        let (real, methods) = below(file);
        methods.xClose.unwrap()(real)
    }
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    to: *mut c_void,
    count: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite gives `count` bytes of room.
    let (handle, to) =
        unsafe { (handle(file), std::slice::from_raw_parts_mut(to.cast(), count as usize)) };
    match handle.disk.read(&handle.name, handle.life, at as usize, to) {
        Ok(read) if read == count as usize => ffi::SQLITE_OK,
        Ok(_) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(error) => code(error),
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    count: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite gives `count` bytes to write.
    let (handle, from) =
        unsafe { (handle(file), std::slice::from_raw_parts(from.cast(), count as usize)) };
    answer(handle.disk.write(&handle.name, handle.life, at as usize, from))
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    // SAFETY: an open file of ours.
    let handle = unsafe { handle(file) };
    answer(handle.disk.truncate(&handle.name, handle.life, size as usize))
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: an open file of ours.
    let handle = unsafe { handle(file) };
    answer(handle.disk.sync(&handle.name, handle.life))
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    // SAFETY: an open file of ours and a place for the answer.
    let handle = unsafe { handle(file) };
    match handle.disk.size(&handle.name, handle.life) {
        Ok(found) => {
            // SAFETY: as above.
            unsafe { *size = found as i64 };
            ffi::SQLITE_OK
        }
        Err(error) => code(error),
    }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (real, methods) = below(file);
        methods.xLock.unwrap()(real, level)
    }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (real, methods) = below(file);
        methods.xUnlock.unwrap()(real, level)
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, result: *mut c_int) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (real, methods) = below(file);
        methods.xCheckReservedLock.unwrap()(real, result)
    }
}

unsafe extern "C" fn file_control(_: *mut sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (real, methods) = below(file);
        methods.xSectorSize.unwrap()(real)
    }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (real, methods) = below(file);
        methods.xDeviceCharacteristics.unwrap()(real)
    }
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    page: c_int,
    size: c_int,
    extend: c_int,
    to: *mut *mut c_void,
) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (real, methods) = below(file);
        methods.xShmMap.unwrap()(real, page, size, extend, to)
    }
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (real, methods) = below(file);
        methods.xShmLock.unwrap()(real, offset, count, flags)
    }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: passed on as it came.
    unsafe {
        let (real, methods) = below(file);
        methods.xShmBarrier.unwrap()(real);
    }
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    // SAFETY: passed on as it came.
    unsafe {
        let (real, methods) = below(file);
        methods.xShmUnmap.unwrap()(real, delete)
    }
}
