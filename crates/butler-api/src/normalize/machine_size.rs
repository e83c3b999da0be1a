//! How big a machine is, whichever way its size was written.

use super::FieldError;
use crate::Quantity;
use crate::quantity::Amount;

const MEBIBYTE: i128 = 1 << 20;
const GIBIBYTE: i128 = 1 << 30;

/// How big a machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineSize {
    /// Number of virtual processors.
    pub cpu: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Root disk in GiB.
    pub disk_gib: u32,
}

/// The least sizes a kind of machine may have. It reads the sizes of such machines.
pub(super) struct LeastSize {
    pub(super) memory_mib: u32,
    pub(super) disk_gib: u32,
}

impl LeastSize {
    /// A size written as quantities: processors, memory and disk, each with its path.
    pub(super) fn of_quantities(
        &self,
        [(cpu_path, cpu), (memory_path, memory), (disk_path, disk)]: [(&str, &Quantity); 3],
        errors: &mut Vec<FieldError>,
    ) -> Option<MachineSize> {
        let thousandths = amount(cpu_path, cpu, errors).map(Amount::millis);
        let memory = amount(memory_path, memory, errors).map(Amount::bytes);
        let disk = amount(disk_path, disk, errors).map(Amount::bytes);
        // A fraction of a processor is refused by the check, as none at all is.
        let processors = thousandths.map(|thousandths| match thousandths % 1000 {
            0 => thousandths / 1000,
            _ => 0,
        });
        self.check(
            [
                (cpu_path, processors?),
                (memory_path, whole(memory?, MEBIBYTE)),
                (disk_path, whole(disk?, GIBIBYTE)),
            ],
            errors,
        )
    }

    /// A size written as whole numbers: processors, MiB and GiB, each with its path.
    pub(super) fn of_numbers(
        &self,
        sizes: [(&str, i32); 3],
        errors: &mut Vec<FieldError>,
    ) -> Option<MachineSize> {
        self.check(sizes.map(|(path, size)| (path, i128::from(size))), errors)
    }

    fn check(
        &self,
        [
            (cpu_path, cpu),
            (memory_path, memory_mib),
            (disk_path, disk_gib),
        ]: [(&str, i128); 3],
        errors: &mut Vec<FieldError>,
    ) -> Option<MachineSize> {
        let before = errors.len();
        if !(1..=128).contains(&cpu) {
            errors.push(FieldError::new(
                cpu_path,
                "must be a whole number from 1 to 128",
            ));
        }
        let mut at_least = |path: &str, size: i128, least: u32, unit: &str| {
            let size = u32::try_from(size.max(0));
            match size {
                Ok(size) if size < least => {
                    errors.push(FieldError::new(
                        path,
                        format!("must be at least {least} {unit}"),
                    ));
                }
                Ok(_) => {}
                Err(_) => {
                    errors.push(FieldError::new(
                        path,
                        format!("must be at most {} {unit}", u32::MAX),
                    ));
                }
            }
            size.unwrap_or_default()
        };
        let memory_mib = at_least(memory_path, memory_mib, self.memory_mib, "MiB");
        let disk_gib = at_least(disk_path, disk_gib, self.disk_gib, "GiB");
        (errors.len() == before).then_some(MachineSize {
            cpu: u32::try_from(cpu).unwrap_or_default(),
            memory_mib,
            disk_gib,
        })
    }
}

fn amount(path: &str, quantity: &Quantity, errors: &mut Vec<FieldError>) -> Option<Amount> {
    quantity
        .amount()
        .map_err(|_| {
            errors.push(FieldError::new(
                path,
                "must be a quantity such as 4 or 16Gi",
            ));
        })
        .ok()
}

/// How many whole GiB an amount of bytes needs.
pub fn gibibytes(amount: Amount) -> i128 {
    whole(amount.bytes(), GIBIBYTE)
}

/// How many whole units so many bytes need.
fn whole(bytes: i128, unit: i128) -> i128 {
    (bytes + unit - 1).div_euclid(unit)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const LEAST: LeastSize = LeastSize {
        memory_mib: 1024,
        disk_gib: 10,
    };

    fn size(cpu: &str, memory: &str, disk: &str) -> Result<(u32, u32, u32), Vec<String>> {
        let (cpu, memory, disk) = (
            Quantity::new(cpu),
            Quantity::new(memory),
            Quantity::new(disk),
        );
        let mut errors = Vec::new();
        LEAST
            .of_quantities(
                [("cpu", &cpu), ("memory", &memory), ("disk", &disk)],
                &mut errors,
            )
            .map(|size| (size.cpu, size.memory_mib, size.disk_gib))
            .ok_or_else(|| errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn quantities_round_up_to_whole_units() {
        assert_eq!(size("4", "16Gi", "107374182400"), Ok((4, 16384, 100)));
        assert_eq!(size("4000m", "1.5Gi", "10.1Gi"), Ok((4, 1536, 11)));
        assert_eq!(size("1", "2G", "100G"), Ok((1, 1908, 94)));
    }

    #[test]
    fn what_is_no_size_is_refused_with_its_field() {
        assert_eq!(
            size("2500m", "1 Gi", "999999Ei"),
            Err(vec![
                "memory must be a quantity such as 4 or 16Gi".to_owned()
            ])
        );
        assert_eq!(
            size("2500m", "-1Gi", "999999Ei"),
            Err(vec![
                "cpu must be a whole number from 1 to 128".to_owned(),
                "memory must be at least 1024 MiB".to_owned(),
                "disk must be at most 4294967295 GiB".to_owned(),
            ])
        );
    }
}
